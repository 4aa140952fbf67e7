"""Who may open a port of a job, and until when."""

import asyncio
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone
from rest_framework.exceptions import AuthenticationFailed

from portal.accounts.models import ApiToken, Membership, Role, TokenScope, User
from portal.api.ports import endpoint
from portal.api.ports.access import may_stay_open, port_admit, port_open
from portal.api.protocol.throttling import CallThrottle
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.inventory.models import Node
from portal.tunnel.streams import Target
from scheduler.core.model.states import ReplicaStatus
from tests.support.app_calls import status_of, websocket_call
from tests.support.replica_rows import a_replica

pytestmark = pytest.mark.django_db


@pytest.fixture
def replica():
    """One that runs, of a job whose owner is a member of its project."""
    replica = a_replica(Node.objects.create(name="node-a"))
    type(replica).objects.filter(pk=replica.pk).update(status=ReplicaStatus.RUNNING)
    job = replica.attempt.job
    Membership.objects.create(project=job.project, user=job.owner, role=Role.MEMBER)
    return replica


def opened(user: User, replica, *, scope=TokenScope.WRITE, rank: int = 0):
    _, secret = ApiToken.objects.create(user=user, name="t", scope=scope)
    ref = replica.attempt.job.label
    return port_admit(authorization=f"Bearer {secret}", ref=ref, rank=rank, port=6006)


def test_the_owner_opens_a_port_of_the_replica_that_runs_and_the_audit_trail_has_it(replica):
    job = replica.attempt.job
    caller, target = opened(job.owner, replica)
    assert target == Target(replica.node_id, replica.attempt_id, 0, 6006)
    assert may_stay_open(caller)
    # One that is refused for another reason leaves no line.
    assert not AuditEntry.objects.filter(action="port_open").exists()
    port_open(caller, target)
    line = AuditEntry.objects.get(action="port_open")
    assert (line.actor, line.noun_id, line.project_id) == (
        job.owner.username,
        str(job.pk),
        job.project_id,
    )
    assert line.after == {"rank": 0, "port": 6006}


@pytest.mark.parametrize(
    ("role", "is_superuser", "code"),
    [(None, False, "not_found"), (Role.ADMIN, False, "forbidden"), (None, True, "forbidden")],
)
def test_nobody_else_does(replica, role, is_superuser, code):
    other = User.objects.create(username="other", is_superuser=is_superuser)
    if role:
        project = replica.attempt.job.project
        Membership.objects.create(project=project, user=other, role=role)
    with pytest.raises(Refused) as refused:
        opened(other, replica)
    assert refused.value.code == code
    assert not AuditEntry.objects.filter(action="port_open").exists()


def test_a_token_that_reads_a_replica_that_waits_and_a_stranger_are_refused(replica):
    owner = replica.attempt.job.owner
    with pytest.raises(Refused, match="scope_missing"):
        opened(owner, replica, scope=TokenScope.READ)
    with pytest.raises(Refused, match="not_found"):
        opened(owner, replica, rank=1)
    type(replica).objects.filter(pk=replica.pk).update(status=ReplicaStatus.READY)
    with pytest.raises(Refused, match="not_running"):
        opened(owner, replica)
    with pytest.raises(Refused, match="not_authenticated"):
        port_admit(authorization="", ref="J-1", rank=0, port=80)
    with pytest.raises(AuthenticationFailed):
        port_admit(authorization="Bearer tsr_wrong", ref="J-1", rank=0, port=80)


def test_it_stays_open_only_with_the_token_the_account_and_the_membership(replica):
    job = replica.attempt.job
    caller, _ = opened(job.owner, replica)
    tokens = ApiToken.objects.filter(pk=caller.token_pk)
    expiry = tokens.get().expiry
    tokens.update(expiry=timezone.now() - timedelta(seconds=1))
    assert not may_stay_open(caller)
    tokens.update(expiry=expiry)
    assert may_stay_open(caller)
    User.objects.filter(pk=job.owner_id).update(is_active=False)
    assert not may_stay_open(caller)
    User.objects.filter(pk=job.owner_id).update(is_active=True)
    Membership.objects.filter(user=job.owner).delete()
    assert not may_stay_open(caller)
    Membership.objects.create(project=job.project, user=job.owner, role=Role.MEMBER)
    assert may_stay_open(caller)
    tokens.delete()
    assert not may_stay_open(caller)


def test_an_owner_who_only_reads_now_does_not(replica):
    owner = replica.attempt.job.owner
    caller, _ = opened(owner, replica)
    Membership.objects.update(role=Role.VIEWER)
    assert not may_stay_open(caller)
    with pytest.raises(Refused) as refused:
        opened(owner, replica)
    assert refused.value.code == "forbidden"


def test_a_port_counts_as_a_call_of_rest(replica, monkeypatch):
    monkeypatch.setattr(CallThrottle, "rate", "2/min", raising=False)
    owner = replica.attempt.job.owner
    cache.clear()
    for _ in range(2):
        opened(owner, replica)
    with pytest.raises(Refused, match="throttled"):
        opened(owner, replica)


@pytest.mark.django_db(transaction=True)
def test_one_port_too_many_leaves_no_line_in_the_audit_trail(replica, monkeypatch):
    owner = replica.attempt.job.owner
    _, secret = ApiToken.objects.create(user=owner, name="t", scope=TokenScope.WRITE)
    path = f"/api/v1/jobs/{replica.attempt.job.label}/ports/6006"
    call = websocket_call(path, headers=[("authorization", f"Bearer {secret}")])
    monkeypatch.setattr(endpoint, "MAX_OPEN_PORTS", 0)
    said = asyncio.run(call.run(endpoint.port_endpoint))
    assert status_of(said) == 429
    assert not AuditEntry.objects.filter(action="port_open").exists()
