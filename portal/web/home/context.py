"""The parts of Home: the user's jobs by state, the quotas of their projects, and the cluster."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import Membership, User
from portal.accounts.selectors import WORKING_ROLES
from portal.allocations.selectors import HeldUnits, held_units_of, slice_holders, usage_of
from portal.apps.access import AppRights
from portal.arrays.selectors import member_counts
from portal.availability.promises import waiting_promises
from portal.availability.selectors import availability_for
from portal.inventory.selectors import gpus
from portal.jobs.models import Job
from portal.jobs.own_jobs import ENDED, RUNNING, WAITING, OwnJobs, own_jobs
from portal.telemetry.job_samples import recent_minutes
from portal.usage.budgets import budget_statuses
from portal.web.cluster.map import MapViewer, NodeMap, draw_nodes, with_counts
from portal.web.home.quota_cards import project_quotas
from portal.web.home.rows import (
    ArrayRow,
    EndedRow,
    RunningRow,
    array_row,
    ended_row,
    running_row,
    waiting_row,
)
from portal.web.home.use_lines import SHOWN
from portal.web.project_choice import ProjectChoice
from portal.web.request.quick_starts import QuickStart, quick_starts
from portal.web.request.template_picker import own_notebook_starts
from portal.web.usage.labels import BudgetSummary, budget_summary
from portal.web.wording.capacity import capacity_line
from scheduler.core.availability.cluster import ClusterAvailability

# Rows of each list; the rest is counted.
MAX_ROWS = 5
MAX_QUOTAS = 6
# A larger cluster is not drawn; one line describes it.
MAX_DRAWN_NODES = 4


def home_context(user: User, scope: ProjectChoice) -> dict[str, Any]:
    now = timezone.now()
    since = timezone.localtime(now).replace(hour=0, minute=0) - timedelta(days=1)
    jobs = own_jobs(user, project=scope.chosen, ended_since=since, size=MAX_ROWS)
    held, counts = held_units_of(user), jobs.counts
    arrays = _array_rows(jobs)
    waiting = [waiting_row(job, arrays.get(job.pk)) for job in jobs.waiting]
    is_empty = not (counts.running or counts.waiting or counts.ended)
    notebooks = own_notebook_starts() if scope.to_work_in else ()
    cluster = availability_for(user, projects=scope.to_work_in)
    return {
        "running": _running_rows(user, jobs, arrays, held, scope, now),
        "waiting": waiting,
        "ended": _ended_rows(jobs, arrays),
        "counts": counts,
        "more": {
            "running": _more(scope, counts.running - _shown(jobs.running), RUNNING),
            "waiting": _more(scope, counts.waiting - _shown(jobs.waiting), WAITING),
            "ended": _more(scope, counts.ended - _shown(jobs.ended), ENDED, order="finished"),
        },
        "next": next((row for row in waiting if row.expected), waiting[0] if waiting else None),
        "queue_length": f"{Job.objects.queued().count():,}" if waiting else "",
        "headline": headline(counts.running, counts.waiting),
        "is_empty": is_empty,
        "quick_starts": (*notebooks, *_quick_starts(scope)) if is_empty else (),
        "notebook_start": next(iter(notebooks), None),
        "scope": scope,
        "may_request": bool(scope.to_work_in),
        "budget": _budget(user, scope, now),
        **_quotas(scope, held, cluster),
        **_cluster(user, scope, cluster),
    }


def headline(running: int, waiting: int) -> str:
    """The title of the page: how many of the user's jobs run and wait."""
    runs = ngettext("%(n)s job running", "%(n)s jobs running", running) % {"n": f"{running:,}"}
    if running and waiting:
        words = {"running": runs, "waiting": f"{waiting:,}"}
        return _("%(running)s, %(waiting)s waiting") % words
    if running:
        return runs
    if waiting:
        text = ngettext("%(n)s job waiting", "%(n)s jobs waiting", waiting)
        return text % {"n": f"{waiting:,}"}
    return _("You have no running or waiting jobs")


def cluster_maps(
    user: User, cluster: ClusterAvailability, memberships: Collection[Membership]
) -> list[NodeMap]:
    """The drawing of every node. Three queries."""
    holders = slice_holders(user, projects={each.project_id for each in memberships})
    team = frozenset(each.project.slug for each in memberships)
    maps = draw_nodes(gpus(), holders, MapViewer(user.username, team))
    return with_counts(maps, cluster)


@dataclass(frozen=True, slots=True)
class MoreJobs:
    """The jobs of a list that it does not show."""

    count: int
    shown: str
    """The number, for people."""
    address: str
    """The Jobs page, filtered to all of the list."""


def _more(scope: ProjectChoice, count: int, statuses: Collection[str], order: str = "") -> MoreJobs:
    query = [("mine", "1"), *(("status", status) for status in statuses)]
    query += [("project", scope.chosen)] if scope.chosen else []
    query += [("order", order)] if order else []
    return MoreJobs(count, f"{count:,}", f"{reverse('web:jobs')}?{urlencode(query)}")


def _shown(jobs: Collection[Job]) -> int:
    """How many jobs these rows stand for."""
    return sum(max(1, getattr(job, "member_count", 0)) for job in jobs)


def _array_rows(jobs: OwnJobs) -> dict[int, ArrayRow]:
    """By the key of the member that stands for it. One query, none without arrays."""
    listed = [*jobs.running, *jobs.waiting, *jobs.ended]
    firsts = [job for job in listed if getattr(job, "member_count", 0)]
    counts = member_counts({job.array_id for job in firsts if job.array_id})
    return {job.pk: row for job in firsts if (row := array_row(job, counts))}


def _running_rows(
    user: User,
    jobs: OwnJobs,
    arrays: Mapping[int, ArrayRow],
    held: Collection[HeldUnits],
    scope: ProjectChoice,
    now: datetime,
) -> list[RunningRow]:
    single = [job.pk for job in jobs.running if job.pk not in arrays]
    rights = _rights_at_own_jobs(user, scope) if settings.PLATFORM.apps_domain else None
    minutes = recent_minutes(single, now - SHOWN) if single else {}
    return [
        RunningRow(job, arrays[job.pk])
        if job.pk in arrays
        else running_row(
            *(user, job, {each.node for each in held if each.job == job.pk}),
            *(minutes.get(job.pk, []), now),
            rights=rights,
        )
        for job in jobs.running
    ]


def _rights_at_own_jobs(user: User, scope: ProjectChoice) -> AppRights:
    """As `app_rights` has them, from what is read already."""
    working = (each for each in scope.memberships if each.role in WORKING_ROLES)
    workers = frozenset((user.pk, each.project_id) for each in working)
    return AppRights(workers, guests=frozenset())


def _ended_rows(jobs: OwnJobs, arrays: Mapping[int, ArrayRow]) -> list[EndedRow]:
    if not jobs.ended:
        return []
    used = usage_of(jobs.ended)
    return [ended_row(job, used.get(job.pk, 0), arrays.get(job.pk)) for job in jobs.ended]


def _quotas(
    scope: ProjectChoice, held: Collection[HeldUnits], cluster: ClusterAvailability
) -> dict[str, Any]:
    projects = scope.projects
    shown = projects[:MAX_QUOTAS]
    quotas = project_quotas(shown, held, waiting_promises(cluster, shown)) if shown else []
    return {
        "quotas": quotas,
        "ring": quotas[0] if len(projects) == 1 else None,
        "more_quotas": len(projects) - len(shown),
    }


def _cluster(user: User, scope: ProjectChoice, cluster: ClusterAvailability) -> dict[str, Any]:
    is_drawn = 0 < len(cluster.nodes) <= MAX_DRAWN_NODES
    return {
        "available": cluster.total,
        "capacity": capacity_line(cluster),
        "maps": cluster_maps(user, cluster, scope.memberships) if is_drawn else [],
    }


def _quick_starts(scope: ProjectChoice) -> tuple[QuickStart, ...]:
    return quick_starts(settings.PLATFORM.image_allow) if scope.to_work_in else ()


def _budget(user: User, scope: ProjectChoice, now: datetime) -> BudgetSummary | None:
    """The first to end of the projects' budgets and the user's own budgets in them."""
    if not scope.projects:
        return None
    budgets = Q(project__slug__in=scope.projects) & (Q(user__isnull=True) | Q(user=user))
    statuses = budget_statuses(budgets, now)
    return budget_summary(statuses[0]) if statuses else None
