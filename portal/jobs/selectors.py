"""Read jobs: those that a user may see, one job with its attempts, and its usage."""

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal

from django.db.models import Prefetch
from django.utils import timezone

from agents.contract.phrase import Phrase
from portal.accounts.models import User
from portal.accounts.selectors import is_project_admin
from portal.errors import Refused
from portal.jobs.models import Allocation, Attempt, Job, Replica
from portal.jobs.querysets import JobQuerySet
from scheduler.core.model.states import JobStatus

# 18 digits fit every database's bigint.
LABEL = re.compile(r"(?:[Jj]-)?([0-9]{1,18})")
UNIT_SECONDS_PER_GPU_HOUR = 56_000 * 3600


def jobs_visible_to(user: User) -> JobQuerySet[Job]:
    """The jobs of the user's projects, newest first; every job for a platform admin."""
    rows: JobQuerySet[Job] = Job.objects.visible_to(user)
    return rows.select_related("project", "owner").order_by("-id")


def job_visible(user: User, ref: str) -> Job:
    """One job by "J-12" or "12". Raises Refused(not_found); foreign and unknown read the same."""
    match = LABEL.fullmatch(ref)
    job = jobs_visible_to(user).filter(pk=int(match[1])).first() if match else None
    if job is None:
        raise job_unknown()
    return job


def job_unknown() -> Refused:
    return Refused("not_found", "This job does not exist, or you may not see it", "", 404)


def job_not_waiting(job: Job, field: str = "") -> Refused:
    values = {"job": job.label, "status": JobStatus(job.status)}
    return Refused(
        "not_waiting", Phrase("%(job)s is %(status)s, not waiting", **values), field, 409
    )


def may_cancel(user: User, job: Job) -> bool:
    """Its owner, and admins of its project or of the platform."""
    return job.owner_id == user.pk or is_project_admin(user, job.project_id)


def attempts_of(job: Job) -> list[Attempt]:
    """The job's attempts with replicas, nodes and devices, in four queries."""
    devices = Allocation.objects.select_related("slice__gpu").order_by("slice__gpu__index", "id")
    replicas = Replica.objects.select_related("node").defer("node__desired").order_by("rank")
    replicas = replicas.prefetch_related(Prefetch("allocations", queryset=devices))
    rows = job.attempts.order_by("number")
    return list(rows.prefetch_related(Prefetch("replicas", queryset=replicas)))


def replica_of(job: Job, *, attempt: int | None = None, rank: int = 0) -> Replica:
    """A replica of one attempt, by default of the last. Raises Refused(not_found)."""
    rows = Replica.objects.filter(attempt__job=job, rank=rank).select_related("attempt__job")
    if attempt is not None:
        rows = rows.filter(attempt__number=attempt)
    row = rows.order_by("-attempt__number").first()
    if row is None:
        raise Refused("not_found", "This replica does not exist yet", "rank", 404)
    return row


def usage_of(jobs: Iterable[Job], *, now: datetime | None = None) -> dict[int, int]:
    """GPU-unit-seconds by job id: units times the time each device was bound. One query."""
    now = now or timezone.now()
    rows = Allocation.objects.filter(
        replica__attempt__job__in=[job.pk for job in jobs], bound_at__isnull=False
    ).values_list("replica__attempt__job_id", "units", "bound_at", "released_at")
    used: dict[int, int] = defaultdict(int)
    for job_id, units, bound_at, released_at in rows:
        bound = max((released_at or now) - (bound_at or now), timedelta(0))
        used[job_id] += units * (bound // timedelta(microseconds=1))
    return {job_id: unit_us // 1_000_000 for job_id, unit_us in used.items()}


def gpu_hours(unit_seconds: int) -> Decimal:
    """Unit-seconds as GPU-hours, rounded up to four decimals."""
    hours = Decimal(unit_seconds) / UNIT_SECONDS_PER_GPU_HOUR
    return hours.quantize(Decimal("0.0001"), rounding=ROUND_UP)
