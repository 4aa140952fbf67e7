"""The answer to a report carries the document that the report brought about.

No task runs here, so whatever a node hears it hears from the answers to its own calls.
"""

from dataclasses import replace

import pytest
from django.utils import timezone

from agents.contract.calls import SyncRequest
from agents.contract.documents import DesiredReplicaState, ReplicaState, digest
from agents.contract.errors import ContractError, ContractErrorCode
from portal.agentapi.sync import sync_accept
from portal.allocations.models import Allocation
from portal.audit.models import Event
from portal.desired.documents import compile_desired
from portal.desired.services import nodes_drive
from portal.inventory.models import Node
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from portal.live import bell
from scheduler.core.model.states import AllocationStatus, JobStatus, NodeStatus, ReplicaStatus
from scheduler.tasks import plan_once
from tests.support.node_sessions import session_open, sync
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
GANG = {"device": {"gpus": 1}, "replicas": 2}


@pytest.fixture(autouse=True)
def tasks(monkeypatch) -> list[tuple[str, ...]]:
    """The tasks that were rung."""
    rung: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        bell, "_send_once", lambda name, *keys, repeat=False: rung.append((name, *keys))
    )
    return rung


def report(node: HonestNode, **fields):
    """Report, and take the document of the answer."""
    answer = sync(node, **fields)
    if answer.desired:
        node.desired = answer.desired
    return answer


def move(node: HonestNode, state: ReplicaState, **columns) -> None:
    for key, seen in node.replicas.items():
        node.replicas[key] = replace(seen, state=state, **columns)


def placed(count: int = 1, **fields) -> tuple[Job, list[HonestNode]]:
    """A job that is placed on nodes with a session, which have heard of it."""
    nodes = [a_node() for _ in range(count)]
    alice = a_user()
    job = a_job(alice, a_project("", alice, gpus=8), **{"device": {"gpus": 1}} | fields)
    plan_once()
    nodes_drive(node_ids=[node.row.pk for node in nodes])
    for node in nodes:
        session_open(node)
        hear(node)
    return job, nodes


def hear(node: HonestNode) -> None:
    """Take the stored document, and prepare what it names."""
    node.hear()
    node.replicas = {wanted.id: node._moved(wanted) for wanted in node.desired.replicas}


def running(**fields) -> tuple[Job, HonestNode]:
    job, (node,) = placed(**fields)
    report(node)
    move(node, ReplicaState.RUNNING)
    report(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    return job, node


def drives(tasks) -> list[str]:
    return [keys[1] for keys in tasks if keys[0] == bell.DRIVE_TASK]


def test_an_ended_replica_is_left_out_at_once_and_its_gpu_is_marked_by_the_next_call(tasks):
    job, node = running()
    tasks.clear()
    move(node, ReplicaState.EXITED, exit_code=0)
    answer = report(node)
    assert answer.desired is not None
    assert answer.desired.replicas == ()
    assert answer.revision == answer.desired.revision == Node.objects.get().revision
    assert drives(tasks) == []

    tasks.clear()
    node.replicas = {}
    assert report(node).desired is None, "it has all that there is"
    assert Allocation.objects.get().status == AllocationStatus.RELEASING
    assert tasks == [(bell.PLAN_TASK,)], "one pass releases it and fills it again"
    plan_once()
    assert Allocation.objects.get().status == AllocationStatus.RELEASED
    job.refresh_from_db()
    assert job.status == JobStatus.SUCCEEDED


def test_the_answer_is_what_a_later_call_would_read():
    _, node = running()
    move(node, ReplicaState.EXITED, exit_code=0)
    answer = sync(node)
    row = Node.objects.get()
    assert answer.desired == compile_desired(row)
    again = sync(node)
    assert again.desired == answer.desired


def test_the_last_rank_that_is_ready_hears_in_its_answer_that_all_run(tasks):
    _, (one, other) = placed(2, **GANG)
    report(one)
    tasks.clear()
    answer = report(other)
    (rank,) = answer.desired.replicas
    assert rank.wish is DesiredReplicaState.RUN
    assert rank.rendezvous is not None
    assert len(rank.rendezvous.peers) == 2
    # The row of the other node is not locked here: its document is a task of its own.
    assert drives(tasks) == [str(one.row.pk)]


def test_a_failed_rank_stops_the_other_node_by_a_ring(tasks):
    job, (one, other) = placed(2, **GANG)
    report(one)
    report(other)
    nodes_drive(node_ids=[one.row.pk])
    one.hear()
    for node in (one, other):
        move(node, ReplicaState.RUNNING)
        report(node)
    tasks.clear()
    move(one, ReplicaState.EXITED, exit_code=1)
    report(one)
    assert drives(tasks) == [str(other.row.pk)]
    nodes_drive(node_ids=[other.row.pk])
    assert other.hear().replicas[0].wish is DesiredReplicaState.STOP
    move(other, ReplicaState.EXITED, exit_code=143)
    assert report(other).desired.replicas == ()
    assert all(row.gone_revision for row in job.attempts.get().replicas.filter(node=other.row))


def test_a_report_that_comes_twice_changes_nothing_and_is_answered_alike():
    _, node = running()
    move(node, ReplicaState.EXITED, exit_code=0)
    first = sync(node)
    events, revision = Event.objects.count(), Node.objects.get().revision
    second = sync(node)
    assert (Event.objects.count(), Node.objects.get().revision) == (events, revision)
    assert second.desired == first.desired


def test_a_late_report_neither_revives_a_replica_nor_frees_its_gpu():
    job, node = running()
    late, at = node.observed(), node.desired.revision
    before = replace(late, replicas=())
    move(node, ReplicaState.EXITED, exit_code=0)
    ended = report(node)

    answer = sync(node, observed=late, applied=at)
    assert answer.desired == ended.desired, "it gets the newest document all the same"
    replica = job.attempts.get().replicas.get()
    assert replica.status == ReplicaStatus.EXITED
    # Made before the node knew that the replica is to go: that it lists nothing says nothing.
    sync(node, observed=before, applied=at)
    assert Allocation.objects.get().status == AllocationStatus.BOUND


def test_reports_out_of_order_end_where_those_in_order_do():
    job, (node,) = placed()
    at = node.desired.revision
    ready = node.observed()
    move(node, ReplicaState.RUNNING)
    begun = node.observed()
    move(node, ReplicaState.EXITED, exit_code=0)
    ended = node.observed()
    for observed in (ended, begun, ready):
        answer = sync(node, observed=observed, applied=at)
        assert answer.desired.replicas == ()
    job.refresh_from_db()
    assert job.status == JobStatus.SUCCEEDED
    moves = Event.objects.filter(noun="replica").exclude(new="").order_by("id")
    assert list(moves.values_list("old", "new")) == [("pending", "exited")]


def test_a_node_that_was_retired_meanwhile_is_refused_and_nothing_is_applied():
    job, node = running()
    Node.objects.update(status=NodeStatus.RETIRED)
    stored = Node.objects.get()
    move(node, ReplicaState.EXITED, exit_code=0)
    with pytest.raises(ContractError) as refused:
        sync(node)
    assert refused.value.code is ContractErrorCode.NODE_RETIRED
    row = Node.objects.get()
    assert (row.revision, row.last_seen_at) == (stored.revision, stored.last_seen_at)
    assert job.attempts.get().replicas.get().status == ReplicaStatus.RUNNING


def test_a_replaced_session_is_refused_and_nothing_is_applied():
    job, node = running()
    Node.objects.update(epoch=2)
    move(node, ReplicaState.EXITED, exit_code=0)
    with pytest.raises(ContractError) as refused:
        sync(node)
    assert refused.value.code is ContractErrorCode.EPOCH_STALE
    assert job.attempts.get().replicas.get().status == ReplicaStatus.RUNNING


def test_a_node_that_holds_back_gets_no_document_with_its_answer():
    _, node = running()
    Node.objects.update(holding_since=timezone.now())
    foreign = replace(next(iter(node.replicas.values())), id="another", job="another")
    move(node, ReplicaState.EXITED, exit_code=0)
    node.replicas["another"] = foreign
    answer = sync(node)
    assert (answer.desired, answer.revision) == (None, 0)
    assert Node.objects.get().holding_since is not None


def test_a_cancel_between_two_reports_is_noted_once_whoever_compiles_first(tasks):
    """The drive that a cancel has rung may come before or after a report of the node."""
    job, node = running()
    other = a_job(job.owner, job.project, device={"gpus": 1})
    job_cancel(job=job, actor="alice")
    assert drives(tasks)[-1] == str(node.row.pk)
    move(node, ReplicaState.EXITED, exit_code=143)
    answer = report(node)
    assert answer.desired.replicas == ()
    replica = job.attempts.get().replicas.get()
    assert replica.gone_revision == answer.revision
    assert not nodes_drive(node_ids=[node.row.pk]), "the late task finds nothing to do"
    replica.refresh_from_db()
    assert replica.gone_revision == answer.revision
    assert other.status == JobStatus.QUEUED


def test_a_report_that_cannot_be_applied_keeps_contact_and_events():
    _, node = running()
    Node.objects.update(lease_until=None)
    observed = node.observed()
    twice = replace(observed, gpus=observed.gpus * 2)
    request = SyncRequest(epoch=1, applied_revision=0, observed_hash=digest(twice), observed=twice)
    stored = Node.objects.get().observed_hash
    with pytest.raises(ContractError) as refused:
        sync_accept(authorization=f"Agent {node.row.pk.hex}.secret", request=request)
    assert refused.value.code is ContractErrorCode.INVALID_FIELD
    row = Node.objects.get()
    assert row.lease_until is not None
    assert row.observed_hash == stored, "so the agent is asked for the whole document again"
