"""The template context of the Queue page."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import Membership, User
from portal.allocations.freeing import units_freeing
from portal.availability.selectors import availability_for
from portal.jobs.models import Job
from portal.jobs.paging import Page, page_of
from portal.planning.order_factors import order_factors
from portal.planning.queue_selectors import (
    SORTING,
    EndingJob,
    QueueCounts,
    next_jobs_to_end,
    queue_counts,
    queue_in_order,
)
from portal.quotas.policy import current_policy
from portal.web.queue.filter_form import MINE, PROJECT, QueueFilterForm
from portal.web.queue.freeing_chart import (
    FreeingChart,
    freeing_chart,
    horizon_for,
    span_ends,
)
from portal.web.queue.groups import QueueGroup, grouped
from portal.web.queue.order_score import OrderScores
from portal.web.queue.order_sentences import order_sentences
from portal.web.queue.rows import QueueRow, ending_job_row, queue_row, queue_viewer
from portal.web.wording.capacity import capacity_line
from portal.web.wording.reason_badges import REASONS

MAX_ENDING_JOBS = 8
# Of the links beside the filter; the bar has all projects.
MAX_PROJECTS = 4
# Lists neighbouring jobs of other projects one by one.
EACH = "each"


def queue_context(
    user: User, query: QueryDict, memberships: Sequence[Membership]
) -> dict[str, Any]:
    """Everything that the page shows, in a fixed number of queries. `memberships`: the user's."""
    filters = QueueFilterForm(query, user, memberships)
    jobs = filters.filtered(queue_in_order())
    page = page_of(jobs, SORTING, after=query.get("after", ""), before=query.get("before", ""))
    viewer = queue_viewer(user, memberships, names=settings.PLATFORM.queue_names)
    policy, counts = current_policy(), queue_counts(user)
    kept = [(name, value) for name in ("whose", "reason") if (value := query.get(name, ""))]
    # An address without any filter would lead on to the project chosen in the bar.
    linked = kept or [PROJECT.query("")]
    is_each, each_query = query.get("others") == EACH, urlencode([*kept, ("others", EACH)])
    now = timezone.now()
    factors = order_factors(page.rows, policy, now)
    scores = OrderScores(factors, policy.order)

    def row_of(job: Job) -> QueueRow:
        return queue_row(job, viewer, policy.bypass_limit, scores.of(job.pk))

    rows: Sequence[QueueRow | QueueGroup] = (
        [row_of(job) for job in page.rows]
        if is_each
        else grouped(page.rows, viewer, factors, row_of)
    )
    ending = next_jobs_to_end(MAX_ENDING_JOBS)
    return {
        "page": Page([], page.before, page.after),
        "rows": rows,
        "each_query": each_query,
        "grouped_query": urlencode(linked) if is_each else None,
        "has_scores": bool(scores),
        "freeing": _freeing(user, ending, now),
        "ending_jobs": [ending_job_row(job, viewer) for job in ending],
        "counts": counts,
        "headline": headline(counts),
        "summary": summary(counts),
        "tab_title": tab_title(counts),
        "capacity": capacity_line(availability_for(user)),
        "order_sentences": order_sentences(policy),
        "scope_links": _scope_links(filters, kept),
        "whose": query.get("whose", ""),
        "reason": query.get("reason", ""),
        "reasons": [(str(code), badge.word) for code, badge in REASONS.items()],
        "errors": {name: " ".join(map(str, errors)) for name, errors in filters.errors.items()},
        "is_filtered": bool(kept),
        "query": each_query if is_each else urlencode(linked),
        "csv_query": urlencode(kept),
        "stream": f"{reverse('web:queue_stream')}?{query.urlencode()}",
        "keys": [job.pk for job in page.rows],
    }


def _freeing(user: User, ending: list[EndingJob], now: datetime) -> FreeingChart | None:
    """The picture over time. One query, none where no job ends."""
    horizon = horizon_for(ending[0].ends_at if ending else None, now)
    if horizon is None:
        return None
    return freeing_chart(units_freeing(user, span_ends(now, horizon)), horizon)


def tab_title(counts: QueueCounts) -> str:
    """For the browser's tab: the user's first position, or how many jobs wait."""
    if counts.first_position:
        return _("Position %(n)s · Queue") % {"n": f"{counts.first_position:,}"}
    if counts.waiting:
        return _("%(n)s waiting · Queue") % {"n": f"{counts.waiting:,}"}
    return _("Queue")


def headline(counts: QueueCounts) -> str:
    """The length of the queue, and the user's own first position."""
    if not counts.waiting:
        return _("No jobs are waiting")
    waits = ngettext("%(n)s job is waiting", "%(n)s jobs are waiting", counts.waiting)
    waits = waits % {"n": f"{counts.waiting:,}"}
    if counts.first_position:
        first = f"{counts.first_position:,}"
        return _("%(waits)s; your first is at position %(first)s") % {
            "waits": waits,
            "first": first,
        }
    return waits


def summary(counts: QueueCounts) -> str:
    """How many jobs are in order, and how many hold devices now."""
    runs = ngettext("%(n)s job holds devices", "%(n)s jobs hold devices", counts.allocated)
    runs = runs % {"n": f"{counts.allocated:,}"}
    if not counts.waiting:
        return _("%(runs)s now. The next request is planned at once.") % {"runs": runs}
    parts = {
        "placed": f"{counts.queued:,}",
        "others": f"{counts.waiting - counts.queued:,}",
        "runs": runs,
    }
    return _("%(placed)s in order, %(others)s not ordered yet. %(runs)s now.") % parts


def _scope_links(
    filters: QueueFilterForm, kept: list[tuple[str, str]]
) -> list[tuple[str, str, bool]]:
    """Links to the queue of all, of the user, of their first projects and of the one that is shown:
    address, label, is current."""
    others = [(name, value) for name, value in kept if name != "whose"]
    current = dict(kept).get("whose", "")
    scopes = [("", _("All")), (MINE, _("Mine"))]
    slugs = dict.fromkeys([*filters.projects[:MAX_PROJECTS], PROJECT.slug(current)])
    scopes += [(PROJECT.query(slug)[1], slug) for slug in slugs if slug in filters.projects]
    return [
        ("?" + urlencode([("whose", value), *others]), word, value == current)
        for value, word in scopes
    ]
