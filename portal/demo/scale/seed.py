"""Writes all rows in one transaction, so that an interrupted run leaves nothing."""

from collections import defaultdict
from datetime import datetime
from random import Random

from django.db import transaction
from django.db.models import F

from agents.contract.units import UNITS_PER_GPU
from portal.allocations.models import Allocation
from portal.demo.scale.devices import choose_devices, slices_write
from portal.demo.scale.history import history_write
from portal.demo.scale.jobs import LIVE_PERCENT, WAITING_PERCENT, JobGenerator, JobRows
from portal.demo.scale.nodes import gpus_write, nodes_write
from portal.demo.scale.people import People, people_write
from portal.demo.scale.requests import JobFactory
from portal.demo.scale.size import ClusterSize, Report, SeededRandom
from portal.jobs.models import Attempt, Job, Replica
from portal.quotas.models import Quota
from scheduler.core.model.states import ALLOCATION_LIVE, JobStatus

BATCH_SIZE = 500
# Units in use by (project, user or None).
UnitsInUse = dict[tuple[int, int | None], int]


def seed_scale(
    size: ClusterSize,
    *,
    seed: int,
    now: datetime,
    report: Report = lambda line: None,
    password: str = "",
) -> None:
    """Write a cluster of this size. With a password, admin, paul and alice can sign in."""
    # Not for secrets: the same seed must give the same rows.
    rng = SeededRandom(Random(seed), now)  # noqa: S311
    with transaction.atomic():
        people = people_write(rng, size, password)
        report(f"{size.users} users in {len(people.projects)} projects")
        gpus = nodes_write(rng, size)
        devices = choose_devices(rng, gpus, people.projects)
        gpus_write(gpus)
        report(f"{size.nodes} nodes with {len(gpus)} GPUs")
        generator = JobGenerator(rng, people, devices, JobFactory(rng))
        live, waiting = size.jobs * LIVE_PERCENT // 100, size.jobs * WAITING_PERCENT // 100
        generator.add_live(live)
        generator.add_waiting(waiting)
        generator.add_ended(size.jobs - len(generator.rows.jobs), gpus)
        slices_write(devices)
        report(f"{len(devices.slices)} slices")
        _jobs_write(generator.rows)
        report(
            f"{len(generator.rows.jobs)} jobs with {len(generator.rows.allocations)} allocations"
        )
        _quotas_write(people, generator.rows)
        entries = history_write(rng, generator.rows, gpus, people)
        report(f"{entries} events, samples, estimates and audit entries")


def _jobs_write(rows: JobRows) -> None:
    """Write jobs in order of submission, which is the order of their numbers."""
    rows.jobs.sort(key=lambda job: str(job.queued_at))
    Job.objects.bulk_create(rows.jobs, batch_size=BATCH_SIZE)
    Job.objects.update(submitted_at=F("queued_at"))
    Job.objects.filter(status=JobStatus.AWAITING_APPROVAL).update(queued_at=None)
    Attempt.objects.bulk_create(rows.attempts, batch_size=BATCH_SIZE)
    Replica.objects.bulk_create(rows.replicas, batch_size=BATCH_SIZE)
    Allocation.objects.bulk_create(rows.allocations, batch_size=BATCH_SIZE)


def _quotas_write(people: People, rows: JobRows) -> None:
    """Write quotas of every project and some users, with some room above their use."""
    in_use: UnitsInUse = defaultdict(int)
    for row in rows.allocations:
        if row.status in ALLOCATION_LIVE:
            in_use[row.project_id, None] += row.units
            in_use[row.project_id, row.user_id] += row.units
    quotas = []
    for project in people.projects:
        quotas.append(_quota(project.pk, None, in_use))
        quotas += [
            _quota(project.pk, user.pk, in_use)
            for nth, user in enumerate(people.members[project.pk])
            if nth % 4 == 0
        ]
    Quota.objects.bulk_create(quotas, batch_size=BATCH_SIZE)


def _quota(project: int, user: int | None, units: UnitsInUse) -> Quota:
    in_use = units[project, user]
    limit = -(-in_use * 5 // 4 // UNITS_PER_GPU) * UNITS_PER_GPU + 16 * UNITS_PER_GPU
    return Quota(
        project_id=project,
        user_id=user,
        limit_units=limit,
        guard_units=limit,
        used_units=in_use,
    )
