"""What the committer writes beside placements: carves, reasons of a long queue, estimates."""

from importlib import import_module

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.test.utils import CaptureQueriesContext

from agents.contract.message import verbatim
from portal.allocations.models import Allocation
from portal.desired.services import node_drive
from portal.inventory.models import Gpu, Slice, SlotClaim
from portal.inventory.node_settings import gpu_pin
from portal.jobs.models import Job
from scheduler.commit.notices import deferrals_write
from scheduler.commit.plan import commit
from scheduler.core.model.decisions import Carve, Deferral, Merge, Plan
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.states import JobStatus, SliceStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle
from tests.support.times import at_epoch

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


def a_carve(start=0, profile="2g.35gb"):
    return Carve(str(Gpu.objects.get().pk), profile, start, 2)


def test_a_slice_that_is_carved_ahead_of_need_is_taken_by_the_next_job(alice, vision):
    node = a_node()
    committed = commit(Plan(carves=(a_carve(),)))
    assert committed.nodes == {node.row.pk}
    row = Slice.objects.get()
    assert (row.profile, row.start, row.units) == ("2g.35gb", 0, 16_000)
    assert SlotClaim.objects.count() == 2
    node_drive(node_id=node.row.pk)
    node.obey()
    row.refresh_from_db()
    assert row.status == SliceStatus.READY
    job = a_job(alice, vision)
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    assert Allocation.objects.get().slice_id == row.pk
    assert node.makes == 1


def test_what_is_no_longer_free_or_is_pinned_is_not_carved():
    a_node()
    assert commit(Plan(carves=(a_carve(),))).nodes
    assert not commit(Plan(carves=(a_carve(),))).nodes, "its place is taken"
    assert not commit(Plan(carves=(a_carve(start=1),))).nodes
    assert not commit(Plan(carves=(a_carve(start=2, profile="9g.9gb"),))).nodes
    gpu_pin(gpu=Gpu.objects.get(), reason="a course uses it", actor="admin")
    assert not commit(Plan(carves=(a_carve(start=2),))).nodes
    assert Slice.objects.count() == 1


def test_a_pinned_gpu_is_not_merged(alice, vision):
    node = a_node()
    a_job(alice, vision)
    settle(node)
    node.finish()
    settle(node)
    (idle,) = Slice.objects.filter(status=SliceStatus.READY)
    gpu_pin(gpu=idle.gpu, reason="a course uses it", actor="admin")
    commit(Plan(merges=(Merge(str(idle.gpu_id), (str(idle.pk),), "1"),)))
    idle.refresh_from_db()
    assert idle.status == SliceStatus.READY


def test_the_reasons_of_a_long_queue_are_written_in_a_few_queries(alice, vision):
    first = a_job(alice, vision)
    rows = Job.objects.filter(pk=first.pk).values().get()
    for field in ("id", "uid"):
        del rows[field]
    Job.objects.bulk_create(Job(**rows) for _ in range(60))

    def holds(said):
        ids = Job.objects.order_by("pk").values_list("pk", flat=True)
        reason = Reason(ReasonCode.RESOURCES, verbatim(said))
        return tuple(Deferral(str(pk), reason, n) for n, pk in enumerate(ids, 1))

    full = holds("full")
    with CaptureQueriesContext(connection) as asked:
        deferrals_write(full)
    assert len(asked) < 8
    told = Job.objects.order_by("pk").values_list("reason__sentence", "position")
    assert list(told) == [("full", n) for n in range(1, 62)]
    with CaptureQueriesContext(connection) as asked:
        deferrals_write(full)
    assert len(asked) == 1, "nothing changed"
    Job.objects.filter(pk=first.pk).update(status=JobStatus.CANCELLED, reason=None)
    deferrals_write(holds("still full"))
    first.refresh_from_db()
    assert first.reason is None, "who no longer waits is told nothing"


def test_allocations_of_before_get_their_seconds_cpu_and_memory(alice, vision):
    node = a_node(gpus=2)
    a_job(alice, vision, device={"gpus": 2}, cpu=3, memory="2GiB")
    settle(node)
    node.finish()
    settle(node)
    before = at_epoch(1_000_000_000)
    Allocation.objects.update(
        used_seconds=0,
        cpu_milli=0,
        memory_mib=0,
        reserved_at=before,
        bound_at=before,
        released_at=at_epoch(1_000_000_090),
    )
    then = MigrationLoader(connection).project_state(("jobs", "0010_field_names")).apps
    import_module("portal.jobs.migrations.0003_used_seconds").fill(then, None)
    rows = Allocation.objects.values_list("used_seconds", "cpu_milli", "memory_mib")
    assert sorted(rows) == [(90, 0, 0), (90, 3_000, 2_048)]
