"""What a node's report asks of the database, as the agent's call makes it."""

from collections import Counter
from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.contract.documents import NodeFacts, ReplicaState
from portal.desired.services import node_drive
from portal.inventory.models import Node
from portal.jobs.models import Job
from portal.live import bell
from scheduler.core.model.states import JobStatus, ReplicaStatus
from scheduler.tasks import plan_once
from tests.support.node_sessions import session_open, sync
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
# Contact, and the report, together.
TRANSACTIONS = 1


@pytest.fixture(autouse=True)
def no_task_runs(monkeypatch):
    monkeypatch.setattr(bell, "_send_once", lambda *_, **__: None)


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice, gpus=32)


def a_node_in_session(gpus: int):
    """A node with a session, which has reported once."""
    node = a_node(gpus=gpus)
    session_open(node)
    node.report = lambda: cost_of_report(node)
    node.report()
    return node


def cost_of_report(node) -> Counter[str]:
    """How often each kind of statement was sent for a report of what the node sees now."""
    with CaptureQueriesContext(connection) as seen:
        sync(node)
    return Counter(query["sql"].split()[0] for query in seen)


def statements(cost: Counter[str]) -> int:
    return cost.total() - cost["BEGIN"] - cost["COMMIT"]


def move_all(node, state: ReplicaState, **columns) -> Counter[str]:
    for key, seen in node.replicas.items():
        node.replicas[key] = replace(seen, state=state, **columns)
    return node.report()


def run_jobs(alice, vision, count: int):
    """A node of its own, all of whose devices the jobs have, ready to run."""
    Node.objects.update(schedulable=False)
    node = a_node_in_session(count)
    jobs = [a_job(alice, vision, device={"gpus": 1}) for _ in range(count)]
    while Job.objects.queued().exists():
        plan_once()
    node_drive(node_id=node.row.pk)
    return node, jobs


def life(alice, vision, count: int) -> dict[str, Counter[str]]:
    """The cost of each report of a node that runs `count` jobs of one GPU."""
    node, jobs = run_jobs(alice, vision, count)
    report, node.report = node.report, lambda: None
    node.obey()
    node.report = report
    costs = {
        state.value: move_all(node, state) for state in (ReplicaState.READY, ReplicaState.RUNNING)
    }
    costs["exited"] = move_all(node, ReplicaState.EXITED, exit_code=0)
    node_drive(node_id=node.row.pk)
    node.hear()
    node.replicas = {}
    costs["gone"] = node.report()
    ended = Job.objects.filter(pk__in=[job.pk for job in jobs])
    assert {job.status for job in ended} == {JobStatus.SUCCEEDED}
    return costs


def test_a_report_of_nothing_new_writes_its_contact_alone(alice, vision):
    node, _ = run_jobs(alice, vision, 2)
    node.obey()
    cost = node.report()
    assert (cost["UPDATE"], cost["INSERT"], cost["DELETE"]) == (1, 0, 0)
    assert cost["BEGIN"] == TRANSACTIONS


def test_a_fact_that_differs_is_written_alone(alice):
    node = a_node_in_session(1)
    real = node.observed
    facts = real().facts
    node.observed = lambda: replace(real(), facts=replace(facts, fabric="rack-2"))
    with CaptureQueriesContext(connection) as seen:
        node.report()
    update = next(q["sql"] for q in seen if q["sql"].startswith("UPDATE") and "rack-2" in q["sql"])
    assert isinstance(facts, NodeFacts)
    assert "topology" not in update
    assert '"facts"' not in update
    node.row.refresh_from_db()
    assert node.row.fabric == "rack-2"


def test_a_report_is_one_transaction_whatever_it_reports(alice, vision):
    few, many = life(alice, vision, 1), life(alice, vision, 6)
    for step, cost in many.items():
        assert cost["BEGIN"] == few[step]["BEGIN"] == TRANSACTIONS, step
        assert cost["INSERT"] == few[step]["INSERT"], step
    # Rows that move alike cost no more for being many.
    assert [statements(many[step]) - statements(few[step]) for step in many] == [0, 0, 0, 0]
    assert [statements(few[step]) for step in few] == [15, 12, 17, 7]


def test_a_report_that_fails_in_the_middle_leaves_nothing_but_contact(alice, vision, monkeypatch):
    node, jobs = run_jobs(alice, vision, 2)
    report, node.report = node.report, lambda: None
    node.obey()
    node.report = report

    def fail(**_):
        raise RuntimeError("the worker is killed here")

    with monkeypatch.context() as patched:
        patched.setattr("portal.sites.observations.jobs_rollup", fail)
        with pytest.raises(RuntimeError):
            node.report()
    replicas = [job.attempts.get().replicas.get() for job in jobs]
    assert {row.status for row in replicas} == {ReplicaStatus.PENDING}
    assert Node.objects.get(pk=node.row.pk).lease_until is not None
    node.report()
    for job in jobs:
        job.refresh_from_db()
        assert job.status == JobStatus.RUNNING


def test_a_node_cannot_report_on_the_ranks_of_another_node(alice, vision):
    """Also not on those that are locked with its own."""
    one, other = a_node_in_session(1), a_node_in_session(1)
    gang = a_job(alice, vision, device={"gpus": 1}, replicas=2)
    while Job.objects.queued().exists():
        plan_once()
    for node in (one, other):
        node_drive(node_id=node.row.pk)
        report, node.report = node.report, lambda: None
        node.obey()
        node.report = report
    one.replicas |= other.replicas
    one.report()
    by_node = {row.node_id: row.status for row in gang.attempts.get().replicas.all()}
    assert by_node == {one.row.pk: ReplicaStatus.READY, other.row.pk: ReplicaStatus.PENDING}
