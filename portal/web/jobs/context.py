"""What the Jobs page shows: the jobs that match its address, a page of them, and how they stand."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet
from django.http import QueryDict
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from portal.accounts.models import User
from portal.accounts.selectors import projects_of
from portal.jobs.bulk_cancel import cancel_permission
from portal.jobs.filters import KINDS, ORDERS, JobFilters, hidden_fields
from portal.jobs.models import Job
from portal.jobs.paging import Page, page_of
from portal.jobs.selectors import jobs_visible_to
from portal.web.wording.labels import BADGES, Badge
from portal.web.wording.reason_badges import REASONS
from scheduler.core.model.states import JOB_ALLOCATED, JOB_FINAL, JOB_WAITING

Choices = list[tuple[str, str | Promise]]
# More are not counted: a page is not slower in a cluster that has run for years.
MAX_COUNTED = 10_000
GROUPS: list[tuple[str | Promise, frozenset[Any]]] = [
    (gettext_lazy("Waiting"), JOB_WAITING),
    (gettext_lazy("Running"), JOB_ALLOCATED),
    (gettext_lazy("Ended"), JOB_FINAL),
]
ORDER_LABELS: dict[str, str | Promise] = {
    "newest": gettext_lazy("Newest first"),
    "oldest": gettext_lazy("Oldest first"),
    "started": gettext_lazy("Last started first"),
    "finished": gettext_lazy("Last ended first"),
}
KIND_LABELS: dict[str, str | Promise] = {
    "batch": gettext_lazy("Batch"),
    "notebook": gettext_lazy("Notebook"),
    "service": gettext_lazy("Service"),
}
# What stands behind "More filters"; it is open while one of them is in use.
MORE_FILTERS = ("reason", "project", "owner", "node", "kind", "submitted_after", "submitted_before")


@dataclass(frozen=True, slots=True)
class JobCounts:
    """How many match, and how many of those run and wait; `is_all`: no more than were counted."""

    total: int
    running: int
    waiting: int
    is_all: bool


def filters_of(user: User, query: QueryDict) -> JobFilters:
    return JobFilters(query, jobs_visible_to(user), user=user)


def job_list_context(user: User, query: QueryDict) -> dict[str, Any]:
    """Everything for the first paint, in a fixed number of queries."""
    filters = filters_of(user, query)
    counts = _counts(filters.qs)
    choices = _choices(user)
    page = Page([]) if filters.errors else _page(filters, query)
    kept = hidden_fields(filters)
    return {
        "page": page,
        "counts": counts,
        "headline": _("A filter is not clear yet")
        if filters.errors
        else headline(counts, is_narrowed=filters.is_narrowed),
        "is_narrowed": filters.is_narrowed,
        "errors": {name: " ".join(map(str, found)) for name, found in filters.errors.items()},
        "form": filters.form,
        "choices": choices,
        "is_foreign_project": _is_foreign(filters, choices["project"]),
        "is_more": any(filters.data.get(name) for name in MORE_FILTERS),
        "groups": _groups(filters),
        "query": urlencode(kept),
        "stream": _stream(page.rows, kept),
        "may_cancel": _may_cancel(user, page.rows),
    }


def _page(filters: JobFilters, query: QueryDict) -> Page:
    after, before = query.get("after", ""), query.get("before", "")
    return page_of(filters.qs, filters.sorting, after=after, before=before)


def _counts(rows: QuerySet[Job]) -> JobCounts:
    """One query that looks at no more than MAX_COUNTED rows and one."""
    found = rows.values("status")[: MAX_COUNTED + 1].aggregate(
        total=Count("status"),
        running=Count("status", filter=Q(status__in=_values(JOB_ALLOCATED))),
        waiting=Count("status", filter=Q(status__in=_values(JOB_WAITING))),
    )
    total = min(found["total"], MAX_COUNTED)
    return JobCounts(total, found["running"], found["waiting"], found["total"] <= MAX_COUNTED)


def headline(counts: JobCounts, *, is_narrowed: bool) -> str:
    """The page's answer: how what is listed stands."""
    if is_narrowed or not counts.is_all:
        return count_title(counts)
    runs = ngettext("%(n)s job running", "%(n)s jobs running", counts.running)
    waits = ngettext("%(n)s job waiting", "%(n)s jobs waiting", counts.waiting)
    runs, waits = runs % {"n": f"{counts.running:,}"}, waits % {"n": f"{counts.waiting:,}"}
    if counts.running and counts.waiting:
        waiting = f"{counts.waiting:,}"
        return _("%(running)s, %(waiting)s waiting") % {"running": runs, "waiting": waiting}
    if counts.running or counts.waiting:
        return runs if counts.running else waits
    return _("Nothing runs or waits")


def count_title(counts: JobCounts) -> str:
    """How many jobs there are in the list."""
    if not counts.is_all:
        return _("More than %(n)s jobs") % {"n": f"{counts.total:,}"}
    return ngettext("%(n)s job", "%(n)s jobs", counts.total) % {"n": f"{counts.total:,}"}


def _choices(user: User) -> dict[str, Choices]:
    slugs = projects_of(user).prefetch_related(None).values_list("slug", flat=True)
    return {
        "status": _words(BADGES),
        "reason": _words(REASONS),
        "project": [(slug, slug) for slug in slugs.order_by("slug")],
        "kind": [(kind, KIND_LABELS[kind]) for kind in KINDS],
        "order": [(order, ORDER_LABELS[order]) for order in ORDERS],
    }


def _is_foreign(filters: JobFilters, projects: Choices) -> bool:
    """Whether a project was typed that is none of the choices: it stays in the form."""
    typed = filters.data.get("project", "")
    return bool(typed) and typed not in {slug for slug, _word in projects}


def _words(badges: dict[str, Badge]) -> Choices:
    return [(str(value), badge.word) for value, badge in badges.items()]


def _groups(filters: JobFilters) -> list[tuple[str, str | Promise, bool]]:
    """The short way to some statuses: (address, word, whether it is the present one)."""
    kept = hidden_fields(filters, "status")
    present = set(filters.data.getlist("status"))
    found: list[tuple[str, str | Promise, bool]] = [("?" + urlencode(kept), _("All"), not present)]
    for word, statuses in GROUPS:
        wanted = _values(statuses)
        asked = [("status", status) for status in wanted]
        found.append(("?" + urlencode(asked + kept), word, present == set(wanted)))
    return found


def _stream(rows: list[Job], kept: list[tuple[str, str]]) -> str:
    """The address that keeps these rows fresh, and tells of jobs that came since."""
    shown = [("row", str(job.pk)) for job in rows]
    return f"{reverse('web:jobs_stream')}?{urlencode(shown + kept)}"


def _may_cancel(user: User, rows: list[Job]) -> set[int]:
    right = cancel_permission(user)
    over = {*JOB_FINAL, "stopping"}
    return {job.pk for job in rows if job.status not in over and right(job)}


def _values(statuses: Iterable[object]) -> list[str]:
    return sorted(str(status) for status in statuses)
