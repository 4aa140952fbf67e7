"""Read what projects count as idle, which jobs are, and what stopping them gave back."""

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import Count, Max, Sum

from portal.allocations.models import Allocation, AllocationSample
from portal.idle.judgement import KernelTimes, MeasuredMinute
from portal.idle.models import GangProgress, IdlePolicy, IdleSpell, KernelActivity
from portal.jobs.models import Job, Replica


def policy_of(project_id: int) -> IdlePolicy | None:
    return IdlePolicy.objects.filter(project=project_id).first()


def spell_of(job: Job) -> IdleSpell | None:
    return IdleSpell.objects.filter(job=job).first()


def gang_progress_of(job: Job) -> GangProgress | None:
    return GangProgress.objects.filter(job=job).first()


def measured_minutes(jobs: Iterable[int], since: datetime) -> dict[int, list[MeasuredMinute]]:
    """By job, oldest first. One query."""
    job = "allocation__replica__attempt__job_id"
    rows = (
        AllocationSample.objects.filter(**{f"{job}__in": list(jobs)}, minute__gte=since)
        .order_by("minute")
        .values_list(job, "minute")
        .annotate(Max("active_percent"), Count("active_percent"))
    )
    found: dict[int, list[MeasuredMinute]] = {}
    for pk, minute, peak, count in rows:
        found.setdefault(pk, []).append(MeasuredMinute(minute, peak, count))
    return found


def device_counts(jobs: Iterable[int]) -> dict[int, int]:
    """By job, how many devices it holds now. One query."""
    job = "replica__attempt__job_id"
    rows = Allocation.objects.live().filter(**{f"{job}__in": list(jobs)}).order_by()
    return dict(rows.values_list(job).annotate(Count("pk")))


def kernel_times(jobs: Collection[int]) -> dict[int, KernelTimes]:
    """By job, of those whose notebook runs and whose node has reported it. One query, none without
    jobs."""
    if not jobs:
        return {}
    running = Replica.objects.first_of_running_jobs().filter(attempt__job__in=jobs)
    rows = KernelActivity.objects.filter(replica__in=running.values("pk"))
    columns = ("replica__attempt__job_id", "active_at", "reported_at")
    return {job: KernelTimes(*times) for job, *times in rows.values_list(*columns)}


def reclaimed_unit_seconds(
    projects: Collection[int] | None, start: datetime, end: datetime
) -> tuple[int, int]:
    """What stopping idle jobs of these projects (None: all) gave back, and how many jobs it was."""
    rows = IdleSpell.objects.filter(stopped_at__gte=start, stopped_at__lt=end)
    if projects is not None:
        rows = rows.filter(job__project__in=projects)
    sums = rows.aggregate(units=Sum("reclaimed_unit_seconds"), jobs=Count("pk"))
    return int(sums["units"] or 0), int(sums["jobs"])
