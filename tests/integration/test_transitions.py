"""Transitions that are written together: the same rows and events as one by one, or none."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.contract.documents import SliceKind
from agents.contract.message import NO_MESSAGE
from portal.audit.codes import EventCode
from portal.audit.models import Event
from portal.audit.transitions import (
    IllegalTransitionError,
    StaleStatusError,
    Transitions,
    advance,
)
from portal.inventory.models import Gpu, Slice
from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus, SliceStatus
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
AMOUNTS = {"cpu_milli": 1, "memory_mib": 1, "replica_count": 1, "time_limit_seconds": 60}


@pytest.fixture
def slices():
    a_node()
    gpu = Gpu.objects.get()
    rows = [
        Slice(gpu=gpu, kind=SliceKind.MIG, profile="1g.18gb", start=start, memory_mib=1, units=1)
        for start in range(4)
    ]
    return Slice.objects.bulk_create(rows)


def moves() -> list[tuple[str, str, str]]:
    rows = Event.objects.filter(noun="slice").order_by("id")
    return list(rows.values_list("noun_id", "old", "new"))


def test_rows_that_move_alike_are_one_update_and_all_events_one_insert(slices):
    transitions = Transitions()
    for row in slices:
        transitions.advance(row, SliceStatus.READY, device_uuid="the same")
    assert not moves(), "nothing is written before"
    with CaptureQueriesContext(connection) as seen:
        transitions.write()
    assert [query["sql"].split()[0] for query in seen] == ["BEGIN", "UPDATE", "INSERT", "COMMIT"]
    assert moves() == [(str(row.pk), "planned", "ready") for row in slices]
    assert set(Slice.objects.values_list("status", "device_uuid")) == {("ready", "the same")}


def test_columns_may_differ_from_row_to_row(slices):
    transitions = Transitions()
    for row in slices:
        transitions.advance(row, SliceStatus.READY, device_uuid=f"MIG-{row.start}", problem="")
    transitions.write()
    rows = Slice.objects.order_by("start").values_list("status", "device_uuid")
    assert list(rows) == [("ready", f"MIG-{start}") for start in range(4)]


def test_a_row_that_moves_several_times_is_written_once_with_every_event(slices):
    transitions, row = Transitions(), slices[0]
    transitions.advance(row, SliceStatus.CREATING, problem="first")
    transitions.advance(row, SliceStatus.READY, device_uuid="MIG-1")
    with CaptureQueriesContext(connection) as seen:
        transitions.write()
    assert sum(query["sql"].startswith("UPDATE") for query in seen) == 1
    row.refresh_from_db()
    assert (row.status, row.device_uuid, row.problem) == ("ready", "MIG-1", "first")
    assert [move[1:] for move in moves()] == [("planned", "creating"), ("creating", "ready")]


def test_a_new_row_is_inserted_where_it_has_moved_to_and_its_events_learn_its_key(caplog):
    alice = a_user("alice")
    vision = a_project("vision", alice)
    jobs = [Job(project=vision, owner=alice, request={}, **AMOUNTS) for _ in range(2)]
    transitions = Transitions()
    for job in jobs:
        transitions.record(job, EventCode.SUBMITTED, NO_MESSAGE)
        transitions.advance(job, JobStatus.QUEUED, queued_at=timezone.now())
    with pytest.raises(ValueError, match="insert the new Job"):
        transitions.write()
    assert not Event.objects.exists()
    Job.objects.bulk_create(jobs)
    with CaptureQueriesContext(connection) as seen, caplog.at_level("INFO", "portal.audit"):
        transitions.write()
    assert [query["sql"].split()[0] for query in seen] == ["BEGIN", "INSERT", "COMMIT"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{job.label} submitted -> queued" for job in jobs
    ]
    columns = ("job_id", "noun_id", "project_id", "old", "new")
    assert list(Event.objects.order_by("id").values_list(*columns)) == [
        (job.pk, str(job.pk), job.project_id, old, new)
        for job in jobs
        for old, new in (("", ""), ("submitted", "queued"))
    ]
    assert set(Job.objects.values_list("status", flat=True)) == {JobStatus.QUEUED}
    assert all(job.queued_at for job in Job.objects.all())
    transitions.advance(jobs[0], JobStatus.CANCELLED)
    transitions.write()
    assert Job.objects.get(status=JobStatus.CANCELLED) == jobs[0]


@pytest.mark.parametrize("differing", [False, True])
def test_one_stale_row_rolls_all_back_and_the_retry_settles_the_others(slices, differing):
    advance(Slice.objects.get(pk=slices[2].pk), SliceStatus.DELETED)
    before = moves()

    def attempt(rows):
        transitions = Transitions()
        for row in rows:
            device = f"MIG-{row.start}" if differing else ""
            transitions.advance(row, SliceStatus.READY, device_uuid=device)
        with transaction.atomic():
            transitions.write()

    with pytest.raises(StaleStatusError, match="1 Slice rows are no longer planned"):
        attempt(slices)
    assert moves() == before
    assert Slice.objects.filter(status=SliceStatus.PLANNED).count() == 3
    attempt(Slice.objects.filter(status=SliceStatus.PLANNED))
    assert Slice.objects.filter(status=SliceStatus.READY).count() == 3
    assert len(moves()) == len(before) + 3


def test_no_edge_of_the_table_is_left_out(slices):
    transitions = Transitions()
    transitions.advance(slices[0], SliceStatus.DELETED)
    with pytest.raises(IllegalTransitionError):
        transitions.advance(slices[0], SliceStatus.READY)
    copy = Slice.objects.get(pk=slices[0].pk)
    with pytest.raises(ValueError, match="another copy"):
        transitions.advance(copy, SliceStatus.READY)
