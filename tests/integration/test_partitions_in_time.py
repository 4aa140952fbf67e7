"""Partitions over many passes of a virtual clock: through loader, plan, committer and a node in
memory. Nothing is made and deleted back and forth, and what is busy or pinned is never touched."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.contract.documents import GpuMode
from portal.allocations.models import Allocation
from portal.audit.models import Event
from portal.desired.services import node_drive
from portal.inventory.models import Gpu, Slice
from portal.inventory.node_settings import gpu_pin
from portal.jobs.models import Job
from portal.quotas.policy import policy_set
from scheduler.core.model.states import ALLOCATION_LIVE, JobStatus, SliceStatus
from scheduler.tasks import plan_once
from tests.support.examples import first_quick
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)

STEP = timedelta(seconds=5)
DWELL = 30
# Each test begins on a day of its own: a worker forgets what it knew of the past.
DAYS = itertools.count(1)


@dataclass
class World:
    """One user's jobs on these nodes. Every `step` is one pass, 5 s after the one before."""

    now: object
    nodes: list[HonestNode] = field(default_factory=list)
    modes: Counter = field(default_factory=Counter)
    busy_changes: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.user = a_user()
        self.project = a_project("", self.user, gpus=64)
        self.seen: dict[str, str] = {}

    def submit(self, **device):
        return a_job(self.user, self.project, device=device)

    def lately(self, count, **device):
        """So many jobs asked for this device, and were cancelled."""
        one = self.submit(**device)
        Job.objects.filter(pk=one.pk).update(status=JobStatus.CANCELLED, finished_at=self.now)
        one.refresh_from_db()
        copies = []
        for _ in range(count - 1):
            copy = Job.objects.get(pk=one.pk)
            copy.pk, copy.uid = None, uuid.uuid4()
            copy._state.adding = True
            copies.append(copy)
        Job.objects.bulk_create(copies)

    def step(self):
        self.now += STEP
        busy = self._held_modes()
        plan_once()
        for node in self.nodes:
            node_drive(node_id=node.row.pk)
            node.obey()
        after = dict(Gpu.objects.values_list("uuid", "desired_mode"))
        self.busy_changes += [key for key, mode in busy.items() if after[key] != mode]
        self.modes.update(
            key for key, mode in after.items() if self.seen.setdefault(key, mode) != mode
        )
        self.seen |= after

    def ends(self, job):
        """The job's processes end; its devices come back with the next passes."""
        wanted = {str(pk) for pk in _replicas(job)}
        for node in self.nodes:
            others = {k: v for k, v in node.replicas.items() if k not in wanted}
            mine = {k: v for k, v in node.replicas.items() if k in wanted}
            if mine:
                node.replicas = mine
                node.finish()
                node.replicas |= others
                node.report()

    def _held_modes(self):
        live = Allocation.objects.filter(status__in=[str(s) for s in ALLOCATION_LIVE])
        return dict(live.values_list("slice__gpu__uuid", "slice__gpu__desired_mode"))


def _replicas(job):
    return Allocation.objects.filter(replica__attempt__job=job).values_list("replica", flat=True)


@pytest.fixture
def world(monkeypatch, settings):
    """Its clock is everybody's: nothing below asks another one."""
    found = World(now=timezone.now() + timedelta(days=next(DAYS)))
    monkeypatch.setattr(timezone, "now", lambda: found.now)
    monkeypatch.setattr("portal.live.bell._send", lambda *_: None)
    settings.PLATFORM = replace(settings.PLATFORM, partition_dwell_seconds=DWELL)
    return found


def status_of(job):
    return JobStatus(Job.objects.values_list("status", flat=True).get(pk=job.pk))


def ahead():
    """What was carved ahead of need."""
    return Event.objects.filter(noun="gpu", code="carve")


def warm():
    """Profiles of ready slices that nobody holds."""
    live = Allocation.objects.filter(status__in=[str(s) for s in ALLOCATION_LIVE])
    rows = Slice.objects.filter(status=SliceStatus.READY).exclude(pk__in=live.values("slice"))
    return sorted(rows.values_list("profile", flat=True))


def unused_deletions():
    """Slices that were made, never held, and deleted again for no job."""
    merges = Event.objects.filter(noun="slice", code="merge")
    merges = merges.exclude(sentence__startswith="for job")
    never = Slice.objects.exclude(pk__in=Allocation.objects.values("slice"))
    return never.filter(pk__in=list(merges.values_list("noun_id", flat=True)))


def test_slices_are_kept_warm_for_a_steady_mix_and_none_is_made_in_vain(world):
    """Twenty-four jobs of three kinds, one every other pass, each 25 s long."""
    policy_set(actor="admin", warm=True)
    world.nodes = [a_node(gpus=2)]
    kinds = itertools.cycle(("1g.18gb", "2g.35gb", "1g.18gb", "3g.71gb"))
    running, done, at_once = [], 0, 0
    for number in range(58):
        if number % 2 == 0 and number < 48:
            ready = Counter(warm())
            kind = next(kinds)
            running.append((number, world.submit(mig=kind)))
            at_once += ready[kind] > 0
        world.step()
        for born, job in [one for one in running if number - one[0] >= 5]:
            world.ends(job)
            running.remove((born, job))
            done += 1
    assert done == 24
    assert {status_of(job) for job in Job.objects.all()} == {JobStatus.SUCCEEDED}
    assert ahead().exists(), "something was prepared"
    assert at_once >= 16, "most jobs found their slice ready"
    assert not unused_deletions().exists()
    before = Slice.objects.count(), Event.objects.filter(code="merge").count()
    for _ in range(10):
        world.step()
    assert (Slice.objects.count(), Event.objects.filter(code="merge").count()) == before


def test_when_the_mix_turns_what_nobody_wants_goes_once_and_only_after_the_dwell(world, settings):
    settings.PLATFORM = replace(settings.PLATFORM, partition_dwell_seconds=2 * DWELL)
    policy_set(actor="admin", warm=True)
    world.nodes = [a_node(gpus=2)]
    first = [world.submit(mig="1g.18gb") for _ in range(2)]
    world.step()
    for _ in range(3):
        world.step()
    assert {status_of(job) for job in first} == {JobStatus.RUNNING}
    for job in first:
        world.ends(job)
    for _ in range(3):
        world.step()
    assert set(warm()) == {"1g.18gb"}
    (settled,) = Gpu.objects.exclude(settles_at=None).values_list("settles_at", flat=True)
    assert settled > world.now + 4 * STEP
    world.lately(400, mig="4g.71gb")
    gone = Event.objects.filter(noun="slice", code="merge")
    while world.now + STEP < settled:
        world.step()
        assert not gone.exists(), "its GPU settles"
    for _ in range(3):
        world.step()
    at = world.now
    assert gone.exists()
    for _ in range(20):
        world.step()
    assert "4g.71gb" in warm()
    assert Slice.objects.filter(profile="1g.18gb", status=SliceStatus.DELETED).exists()
    again = Slice.objects.filter(profile="1g.18gb", created_at__gte=at)
    assert not again.exists(), "nothing is made again of what was deleted"
    assert not Slice.objects.filter(profile="4g.71gb", status=SliceStatus.DELETED).exists()


@pytest.mark.slow
def test_a_pinned_gpu_keeps_its_partitions_whatever_the_mix(world):
    policy_set(actor="admin", warm=True)
    world.nodes = [a_node()]
    job = world.submit(mig="1g.18gb")
    for _ in range(3):
        world.step()
    gpu_pin(gpu=Gpu.objects.get(), reason="a course uses it", actor="admin")
    world.ends(job)
    for _ in range(3):
        world.step()
    before = sorted(Slice.objects.values_list("pk", "status"))
    world.lately(400, mig="4g.71gb")
    for _ in range(20):
        world.step()
    assert sorted(Slice.objects.values_list("pk", "status")) == before
    assert set(warm()) >= {"1g.18gb"}


@pytest.mark.slow
def test_a_busy_gpu_never_changes_its_mode_and_an_empty_one_once_for_each_kind(world):
    """One GPU, and jobs of two kinds that take turns behind each other, both waiting all along."""
    world.nodes = [a_node()]
    jobs = [world.submit(**kind) for kind in ({"mig": "1g.18gb"}, {"gpus": 1}) for _ in range(3)]
    started = []
    for _ in range(45):
        world.step()
        for job in jobs:
            if status_of(job) is JobStatus.RUNNING and job.pk not in {j.pk for j, _ in started}:
                started.append((job, world.now))
        for job, at in started:
            if status_of(job) is JobStatus.RUNNING and world.now - at >= 4 * STEP:
                world.ends(job)
    assert {status_of(job) for job in jobs} == {JobStatus.SUCCEEDED}
    assert world.busy_changes == []
    assert world.modes.total() <= 2, "to mig for the first three, and back for the others"


@pytest.mark.parametrize(
    ("mode", "part"),
    [
        (GpuMode.MIG, {"mig": "3g.71gb"}),
        (GpuMode.MPS, {"mps": {"threads": 25, "memory": "8GiB"}}),
    ],
)
@pytest.mark.parametrize("index", first_quick(0, 1))
def test_modes_stand_still_where_each_kind_has_a_gpu_of_its_mode(world, mode, part, index):
    """Two GPUs, a job of each kind at a time, four times, the later kind first in turn."""
    world.nodes = [a_node(gpus=2)]
    Gpu.objects.filter(index=index).update(desired_mode=mode)
    world.step()
    for turn in range(4):
        kinds = [part, {"gpus": 1}]
        jobs = [world.submit(**kind) for kind in (reversed(kinds) if turn % 2 else kinds)]
        for _ in range(3):
            world.step()
        assert {status_of(job) for job in jobs} == {JobStatus.RUNNING}
        for job in jobs:
            world.ends(job)
        for _ in range(3):
            world.step()
    assert world.busy_changes == []
    assert world.modes.total() == 0
    assert Gpu.objects.get(index=index).desired_mode == mode
