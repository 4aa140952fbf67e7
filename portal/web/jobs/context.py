"""The template context of the Jobs page: the matching jobs, their counts, and the filters."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet
from django.http import QueryDict
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from portal.accounts.models import Membership, Role, User
from portal.accounts.selectors import projects_of
from portal.arrays.models import JobArray
from portal.arrays.selectors import MemberCounts, arrays_of, member_counts
from portal.jobs.bulk_cancel import cancel_permission
from portal.jobs.failure_causes import FailureCause
from portal.jobs.failure_counts import failures_by_cause
from portal.jobs.filters import KINDS, ORDERS, JobFilters, hidden_fields
from portal.jobs.models import Job
from portal.jobs.paging import Page, page_of
from portal.jobs.selectors import jobs_visible_to
from portal.web.project_choice import FILTERS
from portal.web.wording.array_counts import counts_text
from portal.web.wording.failures import cause_label
from portal.web.wording.labels import BADGES, Badge
from portal.web.wording.reason_badges import REASONS
from scheduler.core.model.states import JOB_ALLOCATED, JOB_FINAL, JOB_WAITING

Choices = list[tuple[str, str | Promise]]
# More are not counted, so that years of jobs do not slow the page.
MAX_COUNTED = 10_000
STATUS_GROUPS: list[tuple[str | Promise, frozenset[Any]]] = [
    (gettext_lazy("Waiting"), JOB_WAITING),
    (gettext_lazy("Running"), JOB_ALLOCATED),
    (gettext_lazy("Ended"), JOB_FINAL),
]
ORDER_LABELS: dict[str, str | Promise] = {
    "newest": gettext_lazy("Newest first"),
    "oldest": gettext_lazy("Oldest first"),
    "started": gettext_lazy("Most recently started first"),
    "finished": gettext_lazy("Most recently ended first"),
}
KIND_LABELS: dict[str, str | Promise] = {
    "batch": gettext_lazy("Batch"),
    "notebook": gettext_lazy("Notebook"),
    "service": gettext_lazy("Service"),
}
# "More filters" is unfolded while one of these is set. The bar above shows the project.
UNFOLDING = (
    *("reason", "cause", "owner", "node", "kind", "metric", "array"),
    *("submitted_after", "submitted_before"),
)


@dataclass(frozen=True, slots=True)
class JobCounts:
    """How many jobs match the filters."""

    total: int
    running: int
    waiting: int
    is_complete: bool
    """False: there are more than MAX_COUNTED."""


def job_filters(user: User, query: QueryDict) -> JobFilters:
    return JobFilters(query, jobs_visible_to(user), user=user)


def job_list_context(
    user: User, query: QueryDict, memberships: Sequence[Membership]
) -> dict[str, Any]:
    """Everything that the page shows, in a fixed number of queries. `memberships`: the user's."""
    filters = job_filters(user, query)
    counts = _counts(filters.matching)
    choices = _choices(user, memberships)
    page = Page([]) if filters.errors else _page(filters, query)
    kept = hidden_fields(filters)
    return {
        "page": page,
        "counts": counts,
        "headline": _title(filters, counts),
        "is_filtered": filters.is_narrowed,
        "errors": {name: " ".join(map(str, errors)) for name, errors in filters.errors.items()},
        "form": filters.form,
        "choices": choices,
        "is_other_project": _is_other_project(filters, choices["project"]),
        "is_more_open": any(filters.data.get(name) for name in UNFOLDING),
        "project": filters.data.get("project", ""),
        "status_links": _status_links(filters),
        "query": list_query(kept),
        "causes": _cause_links(filters),
        "stream": _stream(page.rows, kept),
        "may_cancel": _may_cancel(user, memberships, page.rows),
        "arrays": {} if filters.data.get("array") else listed_arrays(page.rows),
    }


@dataclass(frozen=True, slots=True)
class ListedArray:
    """An array in the place of its first member."""

    array: JobArray
    counts: MemberCounts

    @property
    def text(self) -> str:
        return counts_text(self.counts)


def listed_arrays(rows: Collection[Job]) -> dict[int, ListedArray]:
    """By key: the arrays that these rows stand for. Two queries, none without arrays."""
    arrays = arrays_of(rows)
    counts = member_counts(arrays)
    return {key: ListedArray(array, counts[key]) for key, array in arrays.items()}


def list_query(filters: list[tuple[str, str]]) -> str:
    """The filters of a link to the list. Without any it names all projects: the bare address would
    lead on to the project chosen in the bar."""
    return urlencode(filters or [FILTERS["web:jobs"].query("")])


def _page(filters: JobFilters, query: QueryDict) -> Page:
    after, before = query.get("after", ""), query.get("before", "")
    return page_of(filters.qs, filters.sorting, after=after, before=before)


def _counts(rows: QuerySet[Job]) -> JobCounts:
    """One query over at most MAX_COUNTED + 1 rows."""
    found = rows.values("status")[: MAX_COUNTED + 1].aggregate(
        total=Count("status"),
        running=Count("status", filter=Q(status__in=_values(JOB_ALLOCATED))),
        waiting=Count("status", filter=Q(status__in=_values(JOB_WAITING))),
    )
    total = min(found["total"], MAX_COUNTED)
    return JobCounts(total, found["running"], found["waiting"], found["total"] <= MAX_COUNTED)


def _title(filters: JobFilters, counts: JobCounts) -> str:
    if filters.errors:
        return _("A filter is invalid")
    return headline(counts, is_filtered=filters.is_narrowed)


def headline(counts: JobCounts, *, is_filtered: bool) -> str:
    """The title of the page: how many of the listed jobs run and wait."""
    if is_filtered or not counts.is_complete:
        return count_title(counts)
    runs = ngettext("%(n)s job running", "%(n)s jobs running", counts.running)
    waits = ngettext("%(n)s job waiting", "%(n)s jobs waiting", counts.waiting)
    runs, waits = runs % {"n": f"{counts.running:,}"}, waits % {"n": f"{counts.waiting:,}"}
    if counts.running and counts.waiting:
        waiting = f"{counts.waiting:,}"
        return _("%(running)s, %(waiting)s waiting") % {"running": runs, "waiting": waiting}
    if counts.running or counts.waiting:
        return runs if counts.running else waits
    return _("No jobs are running or waiting")


def count_title(counts: JobCounts) -> str:
    """How many jobs are listed."""
    if not counts.is_complete:
        return _("More than %(n)s jobs") % {"n": f"{counts.total:,}"}
    return ngettext("%(n)s job", "%(n)s jobs", counts.total) % {"n": f"{counts.total:,}"}


def _choices(user: User, memberships: Sequence[Membership]) -> dict[str, Choices]:
    slugs = [each.project.slug for each in memberships]
    if user.is_platform_admin:
        projects = projects_of(user).prefetch_related(None).order_by("slug")
        slugs = list(projects.values_list("slug", flat=True))
    return {
        "status": _choices_of(BADGES),
        "reason": _choices_of(REASONS),
        "cause": [(str(cause), cause_label(cause)) for cause in FailureCause],
        "project": [(slug, slug) for slug in slugs],
        "kind": [(kind, KIND_LABELS[kind]) for kind in KINDS],
        "order": [(order, ORDER_LABELS[order]) for order in ORDERS],
    }


def _is_other_project(filters: JobFilters, projects: Choices) -> bool:
    """Whether the address names a project that is not among the choices: the form keeps it."""
    typed = filters.data.get("project", "")
    return bool(typed) and typed not in {slug for slug, _label in projects}


def _choices_of(badges: dict[str, Badge]) -> Choices:
    return [(str(value), badge.word) for value, badge in badges.items()]


def _status_links(filters: JobFilters) -> list[tuple[str, str | Promise, bool]]:
    """Links that filter by a group of statuses: address, label, is current."""
    kept = hidden_fields(filters, "status")
    current = set(filters.data.getlist("status"))
    links: list[tuple[str, str | Promise, bool]] = [("?" + list_query(kept), _("All"), not current)]
    for label, statuses in STATUS_GROUPS:
        values = _values(statuses)
        query = [("status", value) for value in values] + kept
        links.append(("?" + urlencode(query), label, current == set(values)))
    return links


def _cause_links(filters: JobFilters) -> list[tuple[str, str, int, bool]]:
    """Links that filter by a cause of failure: address, label, number of jobs, is current."""
    if filters.errors:
        return []
    kept = hidden_fields(filters, "cause")
    current = filters.data.getlist("cause")
    links = []
    for row in failures_by_cause(filters.matching):
        is_current = current == [row.cause]
        query = kept if is_current else [*kept, ("cause", row.cause)]
        links.append(("?" + list_query(query), cause_label(row.cause), row.count, is_current))
    return links


def _stream(rows: list[Job], kept: list[tuple[str, str]]) -> str:
    """The stream that updates these rows and counts newer jobs."""
    shown = [("row", str(job.pk)) for job in rows]
    return f"{reverse('web:jobs_stream')}?{urlencode(shown + kept)}"


def _may_cancel(user: User, memberships: Sequence[Membership], rows: list[Job]) -> set[int]:
    administered = {each.project_id for each in memberships if each.role == Role.ADMIN}
    right = cancel_permission(user, administered)
    over = {*JOB_FINAL, "stopping"}
    return {
        job.pk for job in rows if job.status not in over and not job.is_array_row and right(job)
    }


def _values(statuses: Iterable[object]) -> list[str]:
    return sorted(str(status) for status in statuses)
