"""The parts of Home: the user's jobs by state, the quota ring and the cluster in one line."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q, Sum
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import Membership, Project, User
from portal.accounts.selectors import projects_to_work_in
from portal.allocations.models import Allocation
from portal.allocations.selectors import slice_holders
from portal.availability.selectors import availability_for
from portal.inventory.selectors import gpus
from portal.jobs.models import Job
from portal.quotas.models import Quota
from portal.usage.budgets import budget_statuses
from portal.web.cluster.map import MapViewer, NodeMap, draw_nodes, with_counts
from portal.web.job.extension import can_extend
from portal.web.request.quick_starts import quick_starts
from portal.web.usage.labels import BudgetSummary, budget_summary
from portal.web.wording.capacity import capacity_line
from portal.web.wording.labels import duration
from portal.web.wording.start_estimates import StartRange, expected_start
from scheduler.core.availability.cluster import ClusterAvailability
from scheduler.core.model.states import JobStatus

RING_LENGTH = 289.03  # the circumference of the ring's circle, radius 46
# A larger cluster is not drawn; one line describes it.
MAX_DRAWN_NODES = 4
ENDS_SOON_SECONDS = 30 * 60


@dataclass(frozen=True, slots=True)
class RunningRow:
    """A job that holds devices. The times are empty before it runs."""

    job: Job
    left: str = ""
    elapsed: str = ""
    limit: str = ""
    percent: int = 0
    """Of the time limit that is over."""
    ends_soon: bool = False
    may_extend: bool = False


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A waiting job."""

    job: Job
    expected: StartRange | None
    earliest: datetime | None = None
    latest: datetime | None = None


@dataclass(frozen=True, slots=True)
class QuotaRing:
    """How much of a project's quota is used, in units."""

    project: str
    limit_units: int
    used_units: int
    own_units: int
    """What the user's own jobs hold."""

    @property
    def others_units(self) -> int:
        return max(0, self.used_units - self.own_units)

    @property
    def free_units(self) -> int:
        return max(0, self.limit_units - self.used_units)

    @property
    def arcs(self) -> list[tuple[str, float, float]]:
        """CSS class, length and offset of each arc of the circle."""
        limit = max(1, self.limit_units)
        own = RING_LENGTH * min(self.own_units, limit) / limit
        others = RING_LENGTH * min(self.others_units, limit) / limit
        return [("ring-on", round(own, 1), 0), ("ring-team", round(others, 1), round(-own, 1))]


def home_context(user: User) -> dict[str, Any]:
    now = timezone.now()
    jobs = own_jobs(user)
    project = projects_to_work_in(user).order_by("slug").first()
    is_empty = not any(jobs.values())
    waiting = [_waiting_row(job) for job in jobs["waiting"]]
    cluster = availability_for(user)
    offers_starts = is_empty and project is not None
    return {
        "running": [_running_row(user, job, now) for job in jobs["running"]],
        "waiting": waiting,
        "ended": jobs["ended"],
        "next": next((row for row in waiting if row.expected), None),
        "queue_length": Job.objects.queued().count() if waiting else 0,
        "headline": headline(len(jobs["running"]), len(jobs["waiting"])),
        "is_empty": is_empty,
        "quick_starts": quick_starts(settings.PLATFORM.image_allow) if offers_starts else (),
        "project": project,
        "ring": quota_ring(user, project) if project else None,
        "budget": _budget(user, project, now),
        "available": cluster.total,
        "capacity": capacity_line(cluster),
        "maps": cluster_maps(user, cluster) if 0 < len(cluster.nodes) <= MAX_DRAWN_NODES else [],
    }


def own_jobs(user: User) -> dict[str, list[Job]]:
    """The user's jobs: running, waiting, ended since yesterday. Three queries."""
    jobs = Job.objects.filter(owner=user).select_related("project", "owner")
    since = timezone.localtime().replace(hour=0, minute=0) - timedelta(days=1)
    ended = jobs.final().filter(finished_at__gte=since)
    return {
        "running": list(jobs.allocated().order_by("-id")[:20]),
        "waiting": list(jobs.waiting().order_by("position", "id")[:20]),
        "ended": list(ended.order_by("-finished_at")[:8]),
    }


def headline(running: int, waiting: int) -> str:
    """The title of the page: how many of the user's jobs run and wait."""
    runs = ngettext("%(n)s job running", "%(n)s jobs running", running) % {"n": running}
    if running and waiting:
        return _("%(running)s, %(waiting)s waiting") % {"running": runs, "waiting": waiting}
    if running:
        return runs
    if waiting:
        return ngettext("%(n)s job waiting", "%(n)s jobs waiting", waiting) % {"n": waiting}
    return _("You have no running or waiting jobs")


def quota_ring(user: User, project: Project) -> QuotaRing | None:
    """None if the project has no quota."""
    quota = Quota.objects.filter(project=project, user__isnull=True, model="").first()
    if quota is None:
        return None
    live = Allocation.objects.live().filter(project=project)
    own_units = live.filter(user=user).aggregate(units=Sum("units"))["units"] or 0
    return QuotaRing(project.slug, quota.limit_units, quota.used_units, own_units)


def cluster_maps(user: User, cluster: ClusterAvailability) -> list[NodeMap]:
    """The drawing of every node, in a constant number of queries."""
    team = frozenset(Membership.objects.filter(user=user).values_list("project__slug", flat=True))
    maps = draw_nodes(gpus(), slice_holders(user), MapViewer(user.username, team))
    return with_counts(maps, cluster)


def _running_row(user: User, job: Job, now: datetime) -> RunningRow:
    if JobStatus(job.status) is not JobStatus.RUNNING or not job.deadline_at:
        return RunningRow(job)
    left = max(0, int((job.deadline_at - now).total_seconds()))
    limit = max(1, job.time_limit_seconds)
    elapsed = min(limit, max(0, limit - left))
    return RunningRow(
        job=job,
        left=duration(left),
        elapsed=duration(elapsed),
        limit=duration(limit),
        percent=elapsed * 100 // limit,
        ends_soon=left <= ENDS_SOON_SECONDS and left * 4 <= limit,
        may_extend=can_extend(user, job),
    )


def _waiting_row(job: Job) -> WaitingRow:
    expected = expected_start(job)
    if expected is None:
        return WaitingRow(job, None)
    return WaitingRow(
        job, expected, _time(job.estimate, "optimistic"), _time(job.estimate, "pessimistic")
    )


def _time(estimate: Any, name: str) -> datetime:
    """Never in the past, although the estimate may be older."""
    at = datetime.fromtimestamp(int(estimate[name]), UTC)
    return max(at, timezone.now())


def _budget(user: User, project: Project | None, now: datetime) -> BudgetSummary | None:
    """The first to end of the project's budgets and the user's own budgets in it."""
    if project is None:
        return None
    budgets = Q(project=project) & (Q(user__isnull=True) | Q(user=user))
    statuses = budget_statuses(budgets, now)
    return budget_summary(statuses[0]) if statuses else None
