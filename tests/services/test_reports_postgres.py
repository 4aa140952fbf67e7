"""Reports that are late, come twice or out of order, or are of a node that is retired meanwhile, on
PostgreSQL, where they meet each other."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import pytest
from django.db import connection, transaction

from agents.contract.documents import ReplicaState
from agents.contract.errors import ContractError, ContractErrorCode
from portal.allocations.models import Allocation
from portal.allocations.retirement import node_retire
from portal.audit.models import Event
from portal.desired.services import nodes_drive
from portal.inventory.models import Gpu, Node, SlotClaim
from portal.live import bell
from portal.quotas.models import Quota
from scheduler import tasks
from scheduler.core.model.states import JobStatus, NodeStatus
from tests.services.lock_waits import waits_for_lock
from tests.services.stack import until
from tests.support.node_sessions import session_open, sync
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user

pytestmark = pytest.mark.services
PATIENCE_SECONDS = 300
# Of earlier reports that come once more beside each new one.
LATE = 3


@pytest.fixture(autouse=True)
def lonely_passes(monkeypatch) -> None:
    """Passes are called, no bell starts one; and a busy machine ends none."""
    monkeypatch.setattr(bell, "_send_once", lambda *_, **__: None)
    monkeypatch.setattr(tasks, "DECIDE_SECONDS", 600)
    monkeypatch.setattr(tasks, "COMMIT_WITHIN_SECONDS", 600)


class Reports:
    """What two nodes report, each time together with some of what they reported before."""

    def __init__(self, nodes: list[HonestNode], random: Random) -> None:
        self.nodes, self.random, self.sent = nodes, random, []

    def report(self) -> None:
        """Both nodes, and late reports of both, all at the same moment."""
        new = [(node, node.observed(), node.desired.revision) for node in self.nodes]
        late = [self.random.choice(self.sent) for _ in range(LATE)] if self.sent else []
        calls = self.random.sample([*new, *late], len(new) + len(late))
        start = threading.Barrier(len(calls))

        def call(node, observed, applied) -> None:
            try:
                start.wait(PATIENCE_SECONDS)
                sync(node, observed, applied)
            finally:
                connection.close()

        with ThreadPoolExecutor(len(calls)) as threads:
            for running in [threads.submit(call, *arguments) for arguments in calls]:
                running.result(PATIENCE_SECONDS)
        self.sent += new
        nodes_drive(node_ids=[node.row.pk for node in self.nodes])
        for node in self.nodes:
            node.hear()

    def move(self, state: ReplicaState, **columns) -> None:
        for node in self.nodes:
            for key, seen in node.replicas.items():
                node.replicas[key] = replace(seen, state=state, **columns)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))]
)
def test_late_and_repeated_reports_of_a_gang_lead_where_the_others_lead(postgres_django, seed):
    nodes, alice = [a_node("n1"), a_node("n2")], a_user("alice")
    gang = {"device": {"gpus": 1}, "replicas": 2, "topology": "any"}
    job = a_job(alice, a_project("vision", alice), **gang)
    tasks.plan_once()
    nodes_drive(node_ids=[node.row.pk for node in nodes])
    for node in nodes:
        session_open(node)
        node.hear()
    reports = Reports(nodes, Random(seed))
    reports.report()
    for node in nodes:
        node.replicas = {wanted.id: node._moved(wanted) for wanted in node.desired.replicas}
    reports.report()
    reports.move(ReplicaState.RUNNING)
    reports.report()
    reports.move(ReplicaState.EXITED, exit_code=0)
    reports.report()
    for node in nodes:
        assert node.desired.replicas == (), "both are to be removed"
        node.replicas = {}
    reports.report()
    # Each node tells what is there once more, after all that was late.
    for node in nodes:
        sync(node)
    tasks.plan_once()

    job.refresh_from_db()
    assert job.status == JobStatus.SUCCEEDED
    assert (Allocation.objects.live().count(), SlotClaim.objects.count()) == (0, 0)
    assert Quota.objects.get().used_units == 0
    moves: dict[tuple[str, str], list[str]] = {}
    for event in Event.objects.filter(job=job).exclude(new="").order_by("pk"):
        chain = moves.setdefault((event.noun, event.noun_id), [event.old])
        assert chain[-1] == event.old, chain
        chain.append(event.new)
    replicas = [chain for (noun, _), chain in moves.items() if noun == "replica"]
    assert replicas == [["pending", "ready", "running", "exited"]] * 2


def test_a_node_that_is_retired_while_its_report_waits_for_the_lock_is_refused(postgres_django):
    node = a_node("old")
    session_open(node)
    node.faults[0] = "It fell off the bus"
    refusals: list[ContractErrorCode] = []

    def report() -> None:
        try:
            sync(node)
        except ContractError as refused:
            refusals.append(refused.code)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        with transaction.atomic():
            node_retire(node=node.row, actor="ada")
            running = thread.submit(report)
            until(waits_for_lock, seconds=PATIENCE_SECONDS, what="the report to wait")
        running.result(PATIENCE_SECONDS)
    # `token_invalid`, if the token was looked for after it was gone; either way it is turned away.
    assert len(refusals) == 1
    assert refusals[0] in (ContractErrorCode.NODE_RETIRED, ContractErrorCode.TOKEN_INVALID)
    assert Node.objects.get().status == NodeStatus.RETIRED
    assert Gpu.objects.get().health_reason == "", "nothing of the report was applied"
