"""A pass commits from a world that is no more: what changed between its reading and its commit is
refused under the lock, and costs no other job of the batch its devices."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from portal.allocations.draining import node_drain
from portal.allocations.models import Allocation
from portal.allocations.retirement import node_retire
from portal.inventory.models import Gpu, Node, Slice, SlotClaim
from portal.jobs.models import Attempt, Job
from portal.jobs.services import job_cancel
from portal.live import bell
from portal.quotas.models import Quota
from scheduler import tasks
from scheduler.commit.partitions import carve_commit, merge_commit
from scheduler.core.model.decisions import Carve, Merge
from scheduler.core.model.states import JobStatus
from tests.services.lock_waits import waits_for_lock
from tests.services.stack import until
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.services
OTHERS = 3
# Of what comes at once, on a machine that others load.
PATIENCE_SECONDS = 300
WHOLE, MIG = {"gpus": 1}, {"mig": "2g.35gb"}


@pytest.fixture(autouse=True)
def lonely_passes(monkeypatch) -> None:
    """Passes are called, no bell starts one; and a busy machine ends none."""
    monkeypatch.setattr(bell, "_send_once", lambda *_, **__: None)
    monkeypatch.setattr(tasks, "DECIDE_SECONDS", 600)
    monkeypatch.setattr(tasks, "COMMIT_WITHIN_SECONDS", 600)


class World:
    """A node that changes, on which one job is to start, and one that stays, for all others."""

    def __init__(self, device: dict) -> None:
        self.admin = a_user("ada", is_superuser=True)
        self.changing, self.steady = a_node("changing"), a_node("steady", gpus=OTHERS)
        self.nodes = (self.changing, self.steady)
        for node in self.nodes:
            Node.objects.filter(pk=node.row.pk).update(labels=[node.row.name])
            node.row.refresh_from_db()
        self.gpu = Gpu.objects.get(node=self.changing.row)
        self.alice = a_user("alice")
        self.vision = a_project("vision", self.alice)
        self.device = device

    def submit(self) -> None:
        self.others = [self._job("steady", WHOLE) for _ in range(OTHERS)]
        self.job = self._job("changing", self.device)

    def with_idle_slice(self) -> None:
        """A job has left one."""
        self._job("changing", self.device)
        settle(self.changing)
        self.changing.finish()
        settle(self.changing)

    def _job(self, label: str, device: dict) -> Job:
        fields = {"device": device, "needs": [label], "cpu": "100m", "memory": "128MiB"}
        return a_job(self.alice, self.vision, **fields)


def drain(world: World) -> None:
    node_drain(node=world.changing.row, actor=world.admin, reason="new fans")


def retire(world: World) -> None:
    node_retire(node=world.changing.row, actor="ada")


def fall_sick(world: World) -> None:
    world.changing.faults[0] = "It fell off the bus"
    world.changing.report()


def carve(world: World) -> None:
    assert carve_commit(Carve(str(world.gpu.pk), "7g.141gb", 0, 8))


def merge(world: World) -> None:
    (idle,) = Slice.objects.filter(gpu=world.gpu)
    assert merge_commit(Merge(str(world.gpu.pk), (str(idle.pk),), "0"))


def lower_quota(world: World) -> None:
    # As the console does: what is used stays within the guard. The others go first in the queue.
    units = OTHERS * 56_000
    Quota.objects.filter(project=world.vision).lock_rows()
    Quota.objects.filter(project=world.vision).update(limit_units=units, guard_units=units)


def hold(world: World) -> None:
    Job.objects.filter(pk=world.job.pk).lock_rows()
    Job.objects.filter(pk=world.job.pk).update(hold_owner="alice")


def cancel(world: World) -> None:
    job_cancel(job=world.job, actor="alice")


CHANGES = [
    pytest.param(drain, WHOLE, id="drained"),
    pytest.param(retire, WHOLE, id="retired"),
    pytest.param(fall_sick, WHOLE, id="its GPU sick"),
    pytest.param(carve, WHOLE, id="its GPU carved"),
    pytest.param(merge, MIG, id="its idle slice merged"),
    pytest.param(lower_quota, WHOLE, id="quota lowered"),
    pytest.param(hold, WHOLE, id="job held"),
    pytest.param(cancel, WHOLE, id="job cancelled"),
]


@pytest.mark.parametrize(
    "is_waited_for",
    [
        pytest.param(True, id="not yet committed"),
        pytest.param(False, id="committed", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("change", "device"), CHANGES)
def test_what_changed_meanwhile_is_refused_and_the_others_are_placed(
    postgres_django, monkeypatch, change, device, is_waited_for
):
    world = World(device)
    if change is merge:
        world.with_idle_slice()
    world.submit()
    decided, changed = threading.Event(), threading.Event()
    decide = tasks.plan_and_places

    def decide_then_wait(*arguments, **options):
        plan, places = decide(*arguments, **options)
        assert len(plan.placements) == OTHERS + 1, "all are to start"
        decided.set()
        assert changed.wait(PATIENCE_SECONDS)
        return plan, places

    def run_pass() -> None:
        try:
            tasks.plan_once()
        finally:
            connection.close()

    with monkeypatch.context() as patched, ThreadPoolExecutor(1) as thread:
        patched.setattr(tasks, "plan_and_places", decide_then_wait)
        running = thread.submit(run_pass)
        assert decided.wait(PATIENCE_SECONDS)
        with transaction.atomic():
            change(world)
            if is_waited_for:
                changed.set()
                until(
                    waits_for_lock,
                    seconds=PATIENCE_SECONDS,
                    what="the commit to wait for the change",
                )
        changed.set()
        running.result(PATIENCE_SECONDS)

    world.job.refresh_from_db()
    is_cancelled = change is cancel
    assert world.job.status == (JobStatus.CANCELLED if is_cancelled else JobStatus.QUEUED)
    assert not Attempt.objects.filter(job=world.job).exists()
    assert Job.objects.filter(status=JobStatus.PLACED).count() == OTHERS
    assert exact_units() == OTHERS * 56_000

    tasks.plan_once()
    world.job.refresh_from_db()
    if change is merge:
        assert world.job.status == JobStatus.PLACED, "another slice is made in its place"
    elif not is_cancelled:
        assert world.job.status == JobStatus.QUEUED
        assert world.job.reason, "it says why it waits"
    exact_units()


def exact_units() -> int:
    """What live allocations hold; quota, claims and slices agree with it."""
    live = Allocation.objects.live()
    units = sum(live.values_list("units", flat=True))
    assert Quota.objects.get().used_units == units
    sizes = Slice.objects.filter(claims__isnull=False).distinct().values_list("size", flat=True)
    assert SlotClaim.objects.count() == sum(sizes)
    assert live.count() == Attempt.objects.filter(ended_at=None).count()
    return units
