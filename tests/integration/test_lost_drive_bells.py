"""Every drive bell is lost here: what a node was not told is found by the sweep, whatever it is.

Nothing is rung in a transaction that never commits, as the one around each of these tests.
"""

from collections.abc import Callable
from random import Random

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from agents.contract.codec import encode
from agents.contract.documents import GpuMode
from portal.allocations.disputes import disputed_claim_accept
from portal.allocations.holding import node_allow_mass_removal
from portal.desired import services
from portal.desired.documents import compile_desired
from portal.desired.services import lagging_nodes, node_drive
from portal.errors import Refused
from portal.inventory.models import DisputedClaim, Gpu, Node
from portal.jobs.models import DesiredState, Job, Replica
from portal.jobs.services import job_cancel
from portal.submission.extensions import job_extend
from scheduler import unsettled
from scheduler.commit.partitions import carve_commit
from scheduler.core.model.decisions import Carve
from scheduler.core.model.states import JobStatus, NodeStatus
from scheduler.sites.registry import own_nodes
from scheduler.tasks import plan_once
from scheduler.unsettled import SWEEPS_A_ROUND, nodes_in_turn, unsettled_nodes
from tests.conftest import clear_caches
from tests.support.examples import examples
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db

GANG = {"replicas": 2, "topology": "any"}
WEEK = 7 * 24 * 3600


@pytest.fixture(autouse=True)
def no_drive_by_the_pass(monkeypatch):
    """As if the worker had died between the commit of a pass and its drives."""
    monkeypatch.setattr(own_nodes, "drive_nodes", lambda nodes: None)


def lags(pk) -> bool:
    """Whether driving the node would change anything: its document, or what is noted of it."""
    node = Node.objects.get(pk=pk)
    body = encode(compile_desired(node)) | {"revision": 0}
    rows = Replica.objects.filter(node=node, gone_revision=None)
    unnoted = rows.filter(desired_state=DesiredState.GONE) | rows.filter(
        desired_state=DesiredState.STOP, stop_revision=None
    )
    return body != node.desired | {"revision": 0} or unnoted.exists()


def a_running_job(*nodes: HonestNode, **fields) -> Job:
    alice = a_user()
    job = a_job(alice, a_project("", alice), **fields)
    settle(*nodes)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    assert not unsettled_nodes(), "all is told and carried out"
    return job


def placed() -> list[HonestNode]:
    node, alice = a_node(), a_user()
    node_drive(node_id=node.row.pk)
    a_job(alice, a_project("", alice), device={"gpus": 1})
    plan_once()
    return [node]


def at_the_barrier() -> list[HonestNode]:
    nodes, alice = [a_node(), a_node()], a_user()
    a_job(alice, a_project("", alice), **GANG)
    plan_once()
    for _ in range(2):
        for node in nodes:
            node_drive(node_id=node.row.pk)
        for node in nodes:
            node.obey()
        if Replica.objects.filter(desired_state=DesiredState.RUN).exists():
            break
    return nodes


def cancelled() -> list[HonestNode]:
    node = a_node()
    job_cancel(job=a_running_job(node), actor="alice")
    return [node]


def ended() -> list[HonestNode]:
    node = a_node()
    a_running_job(node)
    node.finish()
    return [node]


def extended() -> list[HonestNode]:
    node = a_node()
    job = a_running_job(node)
    job_extend(job=job, actor=job.owner, seconds=600, max_seconds=WEEK)
    return [node]


def carved() -> list[HonestNode]:
    node = a_node()
    settle(node)
    gpu = str(Gpu.objects.get().pk)
    assert carve_commit(Carve(gpu=gpu, profile="2g.35gb", start=0, size=2))
    return [node]


def merged() -> list[HonestNode]:
    node = a_node()
    job = a_running_job(node)
    node.finish()
    settle(node)
    a_job(job.owner, job.project, device={"gpus": 1})
    plan_once()
    return [node]


def of_another_mode() -> list[HonestNode]:
    node = a_node()
    settle(node)
    Gpu.objects.update(desired_mode=GpuMode.MIG)
    return [node]


def allowed_to_remove_most() -> list[HonestNode]:
    node = a_node()
    settle(node)
    node_allow_mass_removal(node=node.row, actor="root")
    return [node]


def with_a_new_gpu() -> list[HonestNode]:
    node = a_node()
    settle(node)
    node.gpus = 2
    node.report()
    return [node]


class Thief(HonestNode):
    """Reports the GPU of another node as its own."""

    stolen = ""

    def uuid(self, index):
        return self.stolen


def a_thief(victim: HonestNode) -> Thief:
    thief = Thief(Node.objects.create(name="thief", status=NodeStatus.ONLINE))
    thief.stolen = victim.uuid(0)
    node_drive(node_id=thief.row.pk)
    return thief


def with_a_decided_claim() -> list[HonestNode]:
    victim = a_node()
    settle(victim)
    thief = a_thief(victim)
    thief.report()
    disputed_claim_accept(claim=DisputedClaim.objects.get(), actor="root")
    return [victim, thief]


def with_a_card_of_a_retired_node() -> list[HonestNode]:
    victim = a_node()
    settle(victim)
    thief = a_thief(victim)
    Node.objects.filter(pk=victim.row.pk).update(status=NodeStatus.RETIRED)
    thief.report()
    return [thief]


def never_driven() -> list[HonestNode]:
    return [a_node()]


KINDS = [
    *(at_the_barrier, cancelled, extended, carved, merged, of_another_mode),
    *(allowed_to_remove_most, with_a_decided_claim),
]
# Changes that the node's own report brings.
REPORTED = [ended, with_a_new_gpu, with_a_card_of_a_retired_node, never_driven]


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_bell_is_found_by_the_sweep(kind: Callable[[], list[HonestNode]], monkeypatch):
    nodes = {node.row.pk for node in kind() if lags(node.row.pk)}
    assert nodes, "no bell was rung"
    rung = []
    monkeypatch.setattr(
        "scheduler.sites.own_nodes.ring_drive", lambda pks, *, repeat: rung.extend(pks)
    )
    monkeypatch.setattr("scheduler.sites.own_nodes.nodes_in_turn", set)
    own_nodes.drive()
    assert nodes <= set(rung)
    for pk in nodes:
        node_drive(node_id=pk)
    assert not any(lags(pk) for pk in nodes)


@pytest.mark.parametrize("kind", [placed, at_the_barrier])
def test_a_sweep_drives_no_node_that_knows_all(kind: Callable[[], list[HonestNode]], monkeypatch):
    """Its replicas are on their way, so it may lag behind."""
    nodes = {node.row.pk for node in kind()}
    for pk in nodes:
        node_drive(node_id=pk)
    assert nodes <= unsettled_nodes()
    rung = []
    monkeypatch.setattr(
        "scheduler.sites.own_nodes.ring_drive", lambda pks, *, repeat: rung.extend(pks)
    )
    with CaptureQueriesContext(connection) as seen:
        own_nodes.drive()
    assert rung == []
    assert not [query for query in seen if "desired" in query["sql"] and "UPDATE" in query["sql"]]


def test_a_node_whose_document_cannot_be_made_holds_up_no_other(monkeypatch):
    nodes = {node.row.pk for node in [*cancelled(), *allowed_to_remove_most()]}

    def failing(nodes):
        raise ValueError("a request that cannot be read")

    monkeypatch.setattr(services, "documents_compile", failing)
    assert lagging_nodes(nodes) == nodes


def test_the_time_limit_of_a_task_ends_the_look_as_well(monkeypatch):
    def late(nodes):
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(services, "documents_compile", late)
    with pytest.raises(SoftTimeLimitExceeded):
        lagging_nodes([node.row.pk for node in cancelled()])


@pytest.mark.parametrize("kind", [placed, *REPORTED])
def test_a_placement_and_a_report_need_no_bell_of_their_own_nodes(
    kind: Callable[[], list[HonestNode]],
):
    assert not any(lags(node.row.pk) for node in kind())


def test_a_node_that_was_told_all_is_not_driven_again():
    """Neither one with a running job, nor one with an idle slice, nor one with a whole GPU."""
    nodes = [a_node(), a_node(), a_node()]
    first = a_running_job(*nodes)
    nodes[0].finish()
    nodes[1].finish()
    nodes[2].finish()
    settle(*nodes)
    a_job(first.owner, first.project)
    a_job(first.owner, first.project, device={"gpus": 1})
    settle(*nodes)
    assert Job.objects.filter(status=JobStatus.RUNNING).count() == 2
    assert unsettled_nodes() == set()
    assert lagging_nodes([node.row.pk for node in nodes]) == set()


def test_what_is_due_is_due_once():
    (node,) = allowed_to_remove_most()
    assert unsettled_nodes() == {node.row.pk}
    assert node_drive(node_id=node.row.pk)
    assert unsettled_nodes() == set()
    Node.objects.update(drive_due=True)
    assert not node_drive(node_id=node.row.pk), "the document is the same"
    assert unsettled_nodes() == set()


@pytest.mark.parametrize("count", [0, 1, 59, 60, 150])
def test_every_node_is_driven_once_in_a_round_of_sweeps(count):
    Node.objects.bulk_create(
        Node(name=f"n{number}", status=NodeStatus.ONLINE) for number in range(count)
    )
    Node.objects.create(name="gone", status=NodeStatus.RETIRED)
    turns = [nodes_in_turn() for _ in range(SWEEPS_A_ROUND)]
    assert len(set().union(*turns)) == count
    assert max(len(turn) for turn in turns) <= -(-count // SWEEPS_A_ROUND)


def test_the_round_goes_on_where_it_was_when_nodes_come_and_go(monkeypatch):
    monkeypatch.setattr(unsettled, "SWEEPS_A_ROUND", 2)
    Node.objects.bulk_create(Node(name=f"n{number}") for number in range(6))
    first = nodes_in_turn()
    Node.objects.filter(pk__in=first).delete()
    left = set(Node.objects.values_list("pk", flat=True))
    seen = nodes_in_turn() | nodes_in_turn()
    assert seen == left


DEVICES = (
    {},
    {"device": {"gpus": 1}},
    {"device": {"mps": {"threads": 50, "memory": "20GiB"}}},
    GANG,
)


class Story:
    """Two nodes, their jobs, and what happens to them."""

    def __init__(self, random: Random) -> None:
        # The one before was rolled back: keys and versions of the inventory come again.
        clear_caches.__wrapped__()
        self.random = random
        self.alice = a_user()
        self.project = a_project("", self.alice)
        self.nodes = [a_node(gpus=2), a_node(gpus=2)]

    def node(self) -> HonestNode:
        return self.random.choice(self.nodes)

    def submit(self) -> None:
        a_job(self.alice, self.project, **self.random.choice(DEVICES))

    def drive(self) -> None:
        node_drive(node_id=self.node().row.pk)

    def obey(self) -> None:
        node = self.node()
        node.row.refresh_from_db()
        if node.row.desired:
            node.obey()

    def finish(self) -> None:
        self.node().finish(self.random.choice([0, 1]))

    def settle(self) -> None:
        settle(*self.nodes, rounds=2)

    def cancel(self) -> None:
        for job in Job.objects.exclude(finished_at__isnull=False)[:1]:
            job_cancel(job=job, actor="alice")

    def extend(self) -> None:
        for job in Job.objects.filter(status=JobStatus.RUNNING)[:1]:
            try:
                job_extend(job=job, actor=self.alice, seconds=60, max_seconds=WEEK)
            except Refused:
                return

    def allow(self) -> None:
        node_allow_mass_removal(node=self.node().row, actor="root")

    def add_gpu(self) -> None:
        node = self.node()
        node.gpus += 1
        node.report()


STEPS = ["submit", "plan", "drive", "obey", "finish", "settle", "cancel", "extend"]
STEPS += ["allow", "add_gpu"]


@pytest.mark.slow
@given(
    steps=st.lists(st.sampled_from([*STEPS, "submit", "settle", "plan", "obey"]), max_size=14),
    seed=st.integers(0, 1_000),
)
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_a_node_that_lags_is_found(steps, seed):
    with transaction.atomic():
        story = Story(Random(seed))
        for step in steps:
            plan_once() if step == "plan" else getattr(story, step)()
            found, lagging = unsettled_nodes(), lagging_nodes([one.row.pk for one in story.nodes])
            for node in story.nodes:
                assert node.row.pk in lagging or not lags(node.row.pk), (step, timezone.now())
                assert node.row.pk in found or not lags(node.row.pk), (step, timezone.now())
        transaction.set_rollback(True)
