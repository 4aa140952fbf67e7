"""The template context of an array's page, in a fixed number of queries."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Page, Paginator
from django.db.models import F, OuterRef, QuerySet, Subquery
from django.http import QueryDict
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.arrays.models import JobArray
from portal.arrays.selectors import (
    STATES,
    MemberCounts,
    member_counts,
    members_of,
)
from portal.job_metrics.array_results import (
    MetricFigures,
    member_results,
    metric_names,
    parameter_names,
)
from portal.job_metrics.models import MetricSeries
from portal.jobs.models import Job
from portal.jobs.querysets import values_of
from portal.jobs.selectors import may_cancel_work
from portal.web.wording.array_counts import counts_text

SIZE = 50
MAX_METRICS = 4
# Steps of the comparison page.
MAX_COMPARED = 10
LABELS: dict[str, str | Promise] = {
    "running": _("Running"),
    "waiting": _("Waiting"),
    "succeeded": _("Succeeded"),
    "failed": _("Failed"),
    "cancelled": _("Cancelled"),
}


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member in the table."""

    job: Job
    parameters: list[str]
    metrics: list[MetricFigures | None]


@dataclass(frozen=True, slots=True)
class StateLink:
    """A link that shows the members in one state."""

    address: str
    label: str | Promise
    count: int
    is_current: bool


def array_context(user: User, array: JobArray, query: QueryDict) -> dict[str, Any]:
    counts = member_counts([array.pk])[array.pk]
    state = query.get("state", "")
    state = state if state in STATES else ""
    names = metric_names(array, MAX_METRICS)
    by = query.get("by", "")
    by = by if by.removeprefix("-") in names else ""
    page = Paginator(_members(array, state, by), SIZE).get_page(query.get("page"))
    may_change = may_cancel_work(user, owner=array.owner_id, project=array.project_id)
    return {
        "array": array,
        "counts": counts,
        "summary": counts_text(counts),
        "ended": counts.total - counts.running - counts.waiting,
        "states": _state_links(counts, state, by),
        "state": state,
        "parameters": parameter_names(array),
        "metrics": [(name, *_orders(name, state), _order_of(name, by)) for name in names],
        "page": page,
        "rows": _rows(array, page, names),
        "stream": f"{reverse('web:array_stream', args=[array.label])}?{query.urlencode()}",
        "query": urlencode([(k, v) for k, v in (("state", state), ("by", by)) if v]),
        "may_cancel": may_change and not counts.is_over,
        "may_retry": may_change and bool(counts.failed or counts.cancelled),
        "retried": counts.failed + counts.cancelled,
        "compared": urlencode([("job", job.label) for job in list(page)[:MAX_COMPARED]])
        if names
        else "",
    }


def _members(array: JobArray, state: str, by: str) -> QuerySet[Job]:
    rows: QuerySet[Job] = members_of(array).select_related("project", "owner")
    if state:
        rows = rows.filter(status__in=values_of(STATES[state]))
    if by:
        last = MetricSeries.objects.filter(job=OuterRef("pk"), name=by.removeprefix("-"))
        rows = rows.annotate(best=Subquery(last.order_by("rank").values("last")[:1]))
        order = F("best").desc(nulls_last=True) if by[0] == "-" else F("best").asc(nulls_last=True)
        rows = rows.order_by(order, "array_index")
    return rows


def _rows(array: JobArray, page: Page[Job], names: Collection[str]) -> list[MemberRow]:
    return [
        MemberRow(row.job, list(row.parameters.values()), [row.metrics.get(name) for name in names])
        for row in member_results(array, page, names)
    ]


def _state_links(counts: MemberCounts, state: str, by: str) -> list[StateLink]:
    kept = [("by", by)] if by else []
    links = [StateLink("?" + urlencode(kept), _("All"), counts.total, not state)]
    for name, label in LABELS.items():
        address = "?" + urlencode([("state", name), *kept])
        links.append(StateLink(address, label, getattr(counts, name), state == name))
    return [link for link in links if link.count or link.is_current]


def _orders(name: str, state: str) -> tuple[str, str]:
    """The addresses with the lowest and with the highest value first."""
    kept = [("state", state)] if state else []
    return ("?" + urlencode([("by", name), *kept]), "?" + urlencode([("by", f"-{name}"), *kept]))


def _order_of(name: str, by: str) -> str:
    """As `aria-sort` has it."""
    return {name: "ascending", f"-{name}": "descending"}.get(by, "")
