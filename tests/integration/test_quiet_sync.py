"""A call of a node with nothing to report: one statement, and the guarantees of all calls."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.contract.calls import SyncRequest
from agents.contract.documents import digest
from agents.contract.errors import ContractError
from portal.agentapi import sync
from portal.agentapi.sync import SyncState, sync_accept, sync_news
from portal.database import kept_queries
from portal.inventory.credentials import digest_of
from portal.inventory.models import Node
from portal.jobs.models import DesiredState, Replica
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
COLUMNS = ("last_seen_at", "lease_until", "applied_revision", "status", "acked_seq", "epoch")


@pytest.fixture
def quiet():
    """A node that runs a job, its token, and the call that says nothing new."""
    alice = a_user("alice")
    node = a_node("n1", gpus=2)
    a_job(alice, a_project("vision", alice), device={"gpus": 1})
    settle(node, rounds=3)
    row = Node.objects.get()
    token = f"Agent {row.pk.hex}.secret"
    seen = digest(node.observed())
    Node.objects.update(
        token_digest=digest_of(f"{row.pk.hex}.secret"),
        replaced_token_digest=digest_of(f"{row.pk.hex}.older"),
        token_expires_at=timezone.now() + timedelta(hours=1),
        epoch=4,
        observed_hash=seen,
        acked_seq=7,
        last_seen_at=timezone.now() - timedelta(seconds=25),
    )
    request = SyncRequest(epoch=4, applied_revision=row.revision, observed_hash=seen)
    return token, request


def answer(token: str, request: SyncRequest):
    """The state or the refusal, and what is stored then."""
    try:
        found = sync_accept(authorization=token, request=request)
    except ContractError as refused:
        found = (refused.code, refused.field)
    return found, Node.objects.values(*COLUMNS[2:]).get()


@pytest.fixture
def texts_are_kept(monkeypatch):
    """As on PostgreSQL."""
    monkeypatch.setattr(kept_queries, "KEPT_ON", frozenset({"postgresql", "sqlite"}))


@pytest.mark.usefixtures("texts_are_kept")
def test_a_quiet_call_is_one_statement_and_renews_the_lease(quiet):
    token, request = quiet
    with CaptureQueriesContext(connection) as seen:
        state = sync_accept(authorization=token, request=request)
    assert len(seen) == 1
    assert (state.acked_seq, state.full_required, state.has_news) == (7, False, False)
    node = Node.objects.get()
    assert timezone.now() - node.last_seen_at < timedelta(minutes=1)
    assert node.lease_until > node.last_seen_at


def test_only_a_pause_that_is_too_long_begins_contact_anew(quiet):
    """Whether or not a sweep was there to see it."""
    token, request = quiet
    sync_accept(authorization=token, request=request)
    assert Node.objects.get().contact_since is None
    Node.objects.update(last_seen_at=timezone.now() - timedelta(seconds=36))
    sync_accept(authorization=token, request=request)
    node = Node.objects.get()
    assert node.contact_since == node.last_seen_at
    sync_accept(authorization=token, request=request)
    later = Node.objects.get()
    assert (later.contact_since, later.last_seen_at > node.last_seen_at) == (
        node.contact_since,
        True,
    )


def test_a_new_document_is_read_by_the_statement_that_finds_it(quiet):
    _, request = quiet
    applied = request.applied_revision - 1
    state = SyncState(Node.objects.get().pk, 4, 7, applied, applied, False)
    _, answer = sync_news(state=state)
    assert answer.desired.revision == answer.revision == request.applied_revision
    (origin,) = answer.origins
    assert origin.replica == str(Replica.objects.get().pk)
    with CaptureQueriesContext(connection) as seen:
        _, again = sync_news(state=state)
    assert (again.desired, again.origins) == (answer.desired, answer.origins)
    assert len(seen) == 1
    for stays in (replace(state, applied_revision=applied + 1), replace(state, epoch=3)):
        with CaptureQueriesContext(connection) as seen, suppress(ContractError):
            assert sync_news(state=stays) == (applied + 1, None)
        assert len(seen) == 1


def now() -> object:
    return timezone.now()


LOUD = {
    "quiet": lambda: None,
    "silent before": lambda: Node.objects.update(status="lost"),
    "a long pause": lambda: Node.objects.update(last_seen_at=now() - timedelta(hours=1)),
    "never before": lambda: Node.objects.update(last_seen_at=None),
    "retired": lambda: Node.objects.update(status="retired"),
    "a newer document": lambda: Node.objects.update(revision=1_000),
    "an older document": lambda: Node.objects.update(revision=0),
    "another session": lambda: Node.objects.update(epoch=5),
    "another hash": lambda: Node.objects.update(observed_hash="other"),
    "an expired token": lambda: Node.objects.update(token_expires_at=now()),
    "no token": lambda: Node.objects.update(token_digest=""),
    "awaited": lambda: Node.objects.update(restored_at=now()),
    "holding back": lambda: Node.objects.update(holding_since=now()),
    "devices to release": lambda: Replica.objects.update(
        desired_state=DesiredState.GONE, gone_revision=0
    ),
    "a deleted node": lambda: Node.objects.filter(pk=Node.objects.create(name="x").pk).delete(),
}
CALLS = {
    "as it is": lambda token, request: (token, request),
    "the older token": lambda token, request: (token.replace("secret", "older"), request),
    "a stranger's token": lambda token, request: (token.replace("secret", "guess"), request),
    "no node": lambda token, request: ("Agent x.y", request),
    "another epoch": lambda token, request: (token, replace(request, epoch=3)),
    "ahead of us": lambda token, request: (token, replace(request, applied_revision=2**70)),
    "behind": lambda token, request: (token, replace(request, applied_revision=0)),
}


PAIRS = [*((name, "as it is") for name in LOUD), *(("quiet", call) for call in CALLS)]


@pytest.mark.parametrize(("name", "call"), PAIRS)
def test_the_short_way_answers_and_stores_what_the_long_one_does(name, call, quiet, monkeypatch):
    token, request = CALLS[call](*quiet)
    LOUD[name]()
    before = Node.objects.values().get()
    short = answer(token, request)
    Node.objects.update(**before)
    monkeypatch.setattr(sync, "_quiet", lambda *_: None)
    assert short == answer(token, request)
