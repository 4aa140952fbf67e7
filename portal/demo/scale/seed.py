"""All rows in one transaction: whoever interrupts it leaves nothing behind."""

from collections import defaultdict
from datetime import datetime
from random import Random

from django.db import transaction
from django.db.models import F

from agents.contract.units import UNITS_PER_GPU
from portal.demo.scale.devices import devices_made, slices_write
from portal.demo.scale.history import history_write
from portal.demo.scale.jobs import LIVE, WAITING, Work, Writer
from portal.demo.scale.nodes import gpus_write, machines_write
from portal.demo.scale.people import People, people_write
from portal.demo.scale.requests import Asker
from portal.demo.scale.size import Chance, Say, Size
from portal.jobs.models import Allocation, Attempt, Job, Replica
from portal.quotas.models import Quota
from scheduler.core.model.states import ALLOCATION_LIVE, JobStatus

AT_ONCE = 500
# Units held by (project, user or None).
Counted = dict[tuple[int, int | None], int]


def seed_scale(
    size: Size, *, seed: int, now: datetime, say: Say = lambda line: None, password: str = ""
) -> None:
    """Write a cluster of this size. With a password, admin, paul and alice can sign in."""
    # Not for secrets: the same seed must give the same rows.
    chance = Chance(Random(seed), now)  # noqa: S311
    with transaction.atomic():
        people = people_write(chance, size, password)
        say(f"{size.users} users in {len(people.projects)} projects")
        gpus = machines_write(chance, size)
        devices = devices_made(chance, gpus, people.projects)
        gpus_write(gpus)
        say(f"{size.nodes} nodes with {len(gpus)} GPUs")
        writer = Writer(chance, people, devices, Asker(chance))
        live, waiting = size.jobs * LIVE // 100, size.jobs * WAITING // 100
        writer.live(live)
        writer.waiting(waiting)
        writer.past(size.jobs - len(writer.work.jobs), gpus)
        slices_write(devices)
        say(f"{len(devices.slices)} slices")
        _work_write(writer.work)
        say(f"{len(writer.work.jobs)} jobs with {len(writer.work.allocations)} allocations")
        _quotas_write(people, writer.work)
        lines = history_write(chance, writer.work, gpus, people)
        say(f"{lines} lines of history, samples and audit")


def _work_write(work: Work) -> None:
    """In the order in which they were asked for, as their numbers have it."""
    work.jobs.sort(key=lambda job: str(job.queued_at))
    Job.objects.bulk_create(work.jobs, batch_size=AT_ONCE)
    Job.objects.update(submitted_at=F("queued_at"))
    Job.objects.filter(status=JobStatus.AWAITING_APPROVAL).update(queued_at=None)
    Attempt.objects.bulk_create(work.attempts, batch_size=AT_ONCE)
    Replica.objects.bulk_create(work.replicas, batch_size=AT_ONCE)
    Allocation.objects.bulk_create(work.allocations, batch_size=AT_ONCE)


def _quotas_write(people: People, work: Work) -> None:
    """What is held counts; limits leave some room above it, of every project and some users."""
    used: Counted = defaultdict(int)
    for row in work.allocations:
        if row.status in ALLOCATION_LIVE:
            used[row.project_id, None] += row.units
            used[row.project_id, row.user_id] += row.units
    rows = []
    for project in people.projects:
        rows.append(_quota(project.pk, None, used))
        rows += [
            _quota(project.pk, user.pk, used)
            for nth, user in enumerate(people.of[project.pk])
            if nth % 4 == 0
        ]
    Quota.objects.bulk_create(rows, batch_size=AT_ONCE)


def _quota(project: int, user: int | None, used: Counted) -> Quota:
    held = used[project, user]
    limit = -(-held * 5 // 4 // UNITS_PER_GPU) * UNITS_PER_GPU + 16 * UNITS_PER_GPU
    return Quota(
        project_id=project,
        user_id=user,
        limit_units=limit,
        guard_units=limit,
        used_units=held,
    )
