"""Read who holds which slice, the devices of a job, and how much it used."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from typing import Any
from uuid import UUID

from django.db.models import Prefetch, Q, Sum
from django.utils import timezone

from portal.accounts.models import Membership, User
from portal.allocations.models import Allocation
from portal.allocations.querysets import LIVE_ALLOCATION_STATUSES
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.querysets import ReplicaQuerySet

UNIT_SECONDS_PER_GPU_HOUR = 56_000 * 3600


@dataclass(frozen=True, slots=True)
class SliceHolder:
    """The job that holds a slice. All fields are empty where the user is not in its project."""

    job: str = ""
    name: str = ""
    project: str = ""
    owner: str = ""
    rank: int | None = None
    # When the job reaches its time limit; None before it runs.
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class HeldUnits:
    """What one job holds on one node."""

    job: int
    project: str
    node: str
    """Empty at a site that keeps its nodes to itself."""
    units: int


def held_units_of(user: User) -> list[HeldUnits]:
    """What the user's own jobs hold now, by job and node. One query."""
    columns = ("replica__attempt__job_id", "project__slug", "replica__node__name")
    rows = Allocation.objects.live().filter(user=user).order_by(*columns)
    held = rows.values_list(*columns).annotate(units=Sum("units"))
    return [HeldUnits(job, project, node or "", units) for job, project, node, units in held]


def slice_holders(
    user: User, *, condition: Q | None = None, projects: Collection[int] | None = None
) -> dict[UUID, SliceHolder]:
    """The holder of each allocated slice, by slice id. Two queries for any number of slices; one
    where the caller has the ids of the user's `projects`.

    Everyone may see that a slice is allocated; which job has it only members of its project and
    platform admins.
    """
    job = "replica__attempt__job__"
    rows = (
        Allocation.objects.live()
        .filter(condition or Q(), slice__isnull=False)
        .values_list(
            *("slice_id", "project_id", job + "pk", job + "name", "project__slug"),
            *("user__username", "replica__rank", job + "deadline_at"),
        )
    )
    own: Collection[Any] = projects if projects is not None else _projects_of(user)
    sees_all = user.is_platform_admin
    return {
        slice_id: SliceHolder(f"J-{job_id}", *facts)
        if sees_all or project_id in own
        else SliceHolder()
        for slice_id, project_id, job_id, *facts in rows
    }


def _projects_of(user: User) -> set[int]:
    return set(Membership.objects.filter(user=user).values_list("project_id", flat=True))


def slice_holders_on_nodes(user: User, nodes: Iterable[str]) -> dict[UUID, SliceHolder]:
    """The holders of slices on these nodes, given by name."""
    return slice_holders(user, condition=Q(slice__gpu__node__name__in=list(nodes)))


def allocated_replicas() -> ReplicaQuerySet[Replica]:
    """Those that have at least one live allocation, each once."""
    rows: ReplicaQuerySet[Replica] = Replica.objects.filter(
        allocations__status__in=LIVE_ALLOCATION_STATUSES
    )
    return rows.distinct()


def attempts_of(job: Job) -> list[Attempt]:
    """The job's attempts with replicas, nodes and slices, in four queries."""
    devices = Allocation.objects.filter(slice__isnull=False).select_related("slice__gpu")
    devices = devices.order_by("slice__gpu__index", "id")
    replicas = Replica.objects.select_related("node").defer("node__desired").order_by("rank")
    replicas = replicas.prefetch_related(Prefetch("allocations", queryset=devices))
    rows = job.attempts.select_related("gang_network").order_by("number")
    return list(rows.prefetch_related(Prefetch("replicas", queryset=replicas)))


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
