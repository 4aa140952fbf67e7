"""Home: what runs and until when, what waits and why, what ended, what is free, and one button."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import Project, User
from portal.accounts.selectors import projects_to_work_in
from portal.availability.cluster import ClusterAvailability, cluster_availability
from portal.jobs.models import Job
from portal.usage.budgets import budget_statuses
from portal.web.home.context import cluster_maps, own_jobs, queue_length, quota_ring
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job.extension import can_extend
from portal.web.request.quick_starts import quick_starts
from portal.web.usage.labels import BudgetSummary, budget_summary
from portal.web.wording.labels import duration
from portal.web.wording.start_estimates import StartRange, expected_start
from scheduler.core.model.states import JobStatus

# A cluster of so few nodes is drawn; of a larger one the line says enough.
MAX_DRAWN_NODES = 4
# From here on the time that is left is said in colour.
ENDS_SOON_SECONDS = 30 * 60


@dataclass(frozen=True, slots=True)
class RunningRow:
    """`left`: of its time, empty before it runs. `percent` of the limit is over."""

    job: Job
    left: str = ""
    elapsed: str = ""
    limit: str = ""
    percent: int = 0
    ends_soon: bool = False
    may_extend: bool = False


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """`first` and `last`: between which times it will probably start."""

    job: Job
    expected: StartRange | None
    earliest: datetime | None = None
    latest: datetime | None = None


@login_required
def home(request: AuthenticatedHttpRequest) -> HttpResponse:
    user, now = request.user, timezone.now()
    jobs = own_jobs(user)
    project = projects_to_work_in(user).order_by("slug").first()
    is_empty = not any(jobs.values())
    waiting = [_waiting(job) for job in jobs["waiting"]]
    free = cluster_availability()
    context = {
        "running": [_running(user, job, now) for job in jobs["running"]],
        "waiting": waiting,
        "ended": jobs["ended"],
        "next": next((row for row in waiting if row.expected), None),
        "in_queue": queue_length() if waiting else 0,
        "headline": headline(len(jobs["running"]), len(jobs["waiting"])),
        "is_empty": is_empty,
        "starts": quick_starts(settings.PLATFORM.image_allow) if is_empty and project else (),
        "project": project,
        "ring": quota_ring(user, project) if project else None,
        "budget": _budget(user, project, now),
        "free": free,
        "capacity": capacity_line(free),
        "maps": cluster_maps(user) if 0 < free.nodes <= MAX_DRAWN_NODES else [],
    }
    return render(request, "web/home.html", context)


def headline(running: int, waiting: int) -> str:
    """The page's answer: how one's own work stands."""
    runs = ngettext("%(n)s job running", "%(n)s jobs running", running) % {"n": running}
    if running and waiting:
        return _("%(running)s, %(waiting)s waiting") % {"running": runs, "waiting": waiting}
    if running:
        return runs
    if waiting:
        return ngettext("%(n)s job waiting", "%(n)s jobs waiting", waiting) % {"n": waiting}
    return _("Nothing of yours runs or waits")


def capacity_line(free: ClusterAvailability) -> str:
    """What could be had now, in one line."""
    if not free.nodes:
        return _("No node has reported its GPUs yet.")
    if not free.gpus:
        return _("No GPU is in service now.")
    said = _("%(free)s of %(gpus)s GPUs free") % {"free": free.free, "gpus": free.gpus}
    if free.idle_slices:
        ready = ngettext("%(n)s slice ready", "%(n)s slices ready", free.idle_slices)
        said = _("%(one)s, %(other)s") % {"one": said, "other": ready % {"n": free.idle_slices}}
    return said


def _running(user: User, job: Job, now: datetime) -> RunningRow:
    if JobStatus(job.status) is not JobStatus.RUNNING or not job.deadline_at:
        return RunningRow(job)
    left = max(0, int((job.deadline_at - now).total_seconds()))
    limit = max(1, job.time_limit_seconds)
    spent = min(limit, max(0, limit - left))
    return RunningRow(
        job=job,
        left=duration(left),
        elapsed=duration(spent),
        limit=duration(limit),
        percent=spent * 100 // limit,
        ends_soon=left <= ENDS_SOON_SECONDS and left * 4 <= limit,
        may_extend=can_extend(user, job),
    )


def _waiting(job: Job) -> WaitingRow:
    expected = expected_start(job)
    if expected is None:
        return WaitingRow(job, None)
    return WaitingRow(
        job, expected, _at(job.estimate, "optimistic"), _at(job.estimate, "pessimistic")
    )


def _at(estimate: Any, name: str) -> datetime:
    """Never in the past: an estimate may be older than this moment."""
    at = datetime.fromtimestamp(int(estimate[name]), UTC)
    return timezone.localtime(max(at, timezone.now()))


def _budget(user: User, project: Project | None, now: datetime) -> BudgetSummary | None:
    """The project's budget that ends first, or one's own in it."""
    if project is None:
        return None
    mine = Q(project=project) & (Q(user__isnull=True) | Q(user=user))
    lines = budget_statuses(mine, now)
    return budget_summary(lines[0]) if lines else None
