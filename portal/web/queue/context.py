"""The template context of the Queue page."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from portal.accounts.models import Membership, User
from portal.availability.selectors import availability_for
from portal.jobs.models import Job
from portal.jobs.paging import Page, page_of
from portal.planning.queue_selectors import (
    SORTING,
    QueueCounts,
    next_jobs_to_end,
    queue_counts,
    queue_in_order,
)
from portal.quotas.policy import current_policy
from portal.web.queue.order_sentences import order_sentences
from portal.web.queue.rows import ending_job_row, queue_row, queue_viewer
from portal.web.wording.capacity import capacity_line
from portal.web.wording.reason_badges import REASONS

MAX_ENDING_JOBS = 8
NOT_A_CHOICE = {"invalid_choice": gettext_lazy("%(value)s is not a valid choice")}
MINE = "mine"


class QueueFilterForm(forms.Form):
    """Whose jobs, and for what reason they wait. Only the user's own projects can be chosen: the
    queue does not reveal the owners of other jobs."""

    reason = forms.ChoiceField(
        required=False,
        choices=[(str(code), str(code)) for code in REASONS],
        error_messages=NOT_A_CHOICE,
    )

    def __init__(self, data: QueryDict, user: User) -> None:
        super().__init__(data)
        rows = Membership.objects.filter(user=user).order_by("project__slug")
        self.projects = list(rows.values_list("project__slug", flat=True))
        projects = [(f"project-{slug}", slug) for slug in self.projects]
        self.fields["whose"] = forms.ChoiceField(
            choices=[(MINE, MINE), *projects], required=False, error_messages=NOT_A_CHOICE
        )
        self.user = user

    def filtered(self, rows: QuerySet[Job]) -> QuerySet[Job]:
        if not self.is_valid():
            return rows.none()
        whose, reason = self.cleaned_data["whose"], self.cleaned_data["reason"]
        if whose == MINE:
            rows = rows.filter(owner=self.user)
        elif whose:
            rows = rows.filter(project__slug=whose.removeprefix("project-"))
        return rows.filter(reason__code=reason) if reason else rows


def queue_context(user: User, query: QueryDict) -> dict[str, Any]:
    """Everything that the page shows, in a fixed number of queries."""
    filters = QueueFilterForm(query, user)
    rows = filters.filtered(queue_in_order())
    page = page_of(rows, SORTING, after=query.get("after", ""), before=query.get("before", ""))
    viewer = queue_viewer(user, names=settings.PLATFORM.queue_names)
    policy, counts = current_policy(), queue_counts(user)
    kept = [(name, value) for name in ("whose", "reason") if (value := query.get(name, ""))]
    return {
        "page": Page([], page.before, page.after),
        "rows": [queue_row(job, viewer, policy.bypass_limit) for job in page.rows],
        "ending_jobs": [
            ending_job_row(ending, viewer) for ending in next_jobs_to_end(MAX_ENDING_JOBS)
        ],
        "counts": counts,
        "headline": headline(counts),
        "summary": summary(counts),
        "capacity": capacity_line(availability_for(user)),
        "order_sentences": order_sentences(policy),
        "scope_links": _scope_links(filters, kept),
        "whose": query.get("whose", ""),
        "reason": query.get("reason", ""),
        "reasons": [(str(code), badge.word) for code, badge in REASONS.items()],
        "errors": {name: " ".join(map(str, errors)) for name, errors in filters.errors.items()},
        "is_filtered": bool(kept),
        "query": urlencode(kept),
        "stream": f"{reverse('web:queue_stream')}?{query.urlencode()}",
        "keys": [job.pk for job in page.rows],
    }


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
    """Links to the queue of all, of the user and of their projects: address, label, is current."""
    others = [(name, value) for name, value in kept if name != "whose"]
    current = dict(kept).get("whose", "")
    scopes = [("", _("All")), (MINE, _("Mine"))]
    scopes += [(f"project-{slug}", slug) for slug in filters.projects[:4]]
    return [
        ("?" + urlencode([("whose", value), *others] if value else others), word, value == current)
        for value, word in scopes
    ]
