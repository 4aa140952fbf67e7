"""Queue: everybody's waiting jobs in the order they will be tried, and why each waits."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from portal.accounts.models import Membership, User
from portal.errors import Refused
from portal.jobs.holds import job_hold, job_release
from portal.jobs.models import Job
from portal.jobs.paging import Page, page_of
from portal.jobs.selectors import may_cancel
from portal.planning.queue_selectors import (
    SORTING,
    QueueCounts,
    next_jobs_to_end,
    queue_counts,
    queue_in_order,
)
from portal.quotas.policy import current_policy
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job.views import visible_job_or_404
from portal.web.queue.order_labels import order_lines
from portal.web.queue.rows import leaving_row, queue_row, queue_viewer
from portal.web.wording.messages import refusal_text
from portal.web.wording.reason_badges import REASONS
from scheduler.core.model.states import JOB_WAITING, JobStatus

LEAVING_SHOWN = 8
NOT_A_CHOICE = {"invalid_choice": gettext_lazy("%(value)s is none of the choices here")}
MINE = "mine"


class QueueFilterForm(forms.Form):
    """Whose jobs, and waiting for what. Projects are only the reader's own: the list of others
    tells nothing of who they are."""

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


@login_required
def queue(request: AuthenticatedHttpRequest) -> HttpResponse:
    return render(request, "web/queue.html", queue_context(request.user, request.GET))


def queue_context(user: User, query: QueryDict) -> dict[str, Any]:
    """Everything that the page shows, in a fixed number of queries."""
    narrow = QueueFilterForm(query, user)
    rows = narrow.filtered(queue_in_order())
    page = page_of(rows, SORTING, after=query.get("after", ""), before=query.get("before", ""))
    reader = queue_viewer(user, names=settings.PLATFORM.queue_names)
    policy, counted = current_policy(), queue_counts(user)
    kept = [(name, value) for name in ("whose", "reason") if (value := query.get(name, ""))]
    return {
        "page": Page([], page.before, page.after),
        "rows": [queue_row(job, reader, policy.bypass_limit) for job in page.rows],
        "leaving": [leaving_row(one, reader) for one in next_jobs_to_end(LEAVING_SHOWN)],
        "heads": counted,
        "headline": headline(counted),
        "sentence": summary(counted),
        "order": order_lines(policy),
        "groups": _groups(narrow, kept),
        "whose": query.get("whose", ""),
        "reason": query.get("reason", ""),
        "reasons": [(str(code), badge.word) for code, badge in REASONS.items()],
        "errors": {name: " ".join(map(str, found)) for name, found in narrow.errors.items()},
        "is_narrowed": bool(kept),
        "query": urlencode(kept),
        "stream": f"{reverse('web:queue_stream')}?{query.urlencode()}",
        "keys": [job.pk for job in page.rows],
    }


def headline(counted: QueueCounts) -> str:
    """The page's answer: how long the queue is, and where one stands in it."""
    if not counted.waiting:
        return _("Nobody waits")
    waits = ngettext("%(n)s job is waiting", "%(n)s jobs are waiting", counted.waiting)
    waits = waits % {"n": f"{counted.waiting:,}"}
    if counted.first_position:
        first = f"{counted.first_position:,}"
        return _("%(waits)s; your first is at position %(first)s") % {
            "waits": waits,
            "first": first,
        }
    return waits


def summary(counted: QueueCounts) -> str:
    """What stands in order, and what holds devices now."""
    runs = ngettext("%(n)s job holds devices", "%(n)s jobs hold devices", counted.allocated)
    runs = runs % {"n": f"{counted.allocated:,}"}
    if not counted.waiting:
        return _("%(runs)s now. Who asks next is looked at at once.") % {"runs": runs}
    parts = {
        "placed": f"{counted.queued:,}",
        "others": f"{counted.waiting - counted.queued:,}",
        "runs": runs,
    }
    return _("%(placed)s in order, %(others)s not yet in order. %(runs)s now.") % parts


def _groups(narrow: QueueFilterForm, kept: list[tuple[str, str]]) -> list[tuple[str, str, bool]]:
    """Whose jobs, as links: (address, word, whether it is the present one)."""
    others = [(name, value) for name, value in kept if name != "whose"]
    present = dict(kept).get("whose", "")
    wanted = [("", _("All")), (MINE, _("Mine"))]
    wanted += [(f"project-{slug}", slug) for slug in narrow.projects[:4]]
    return [
        ("?" + urlencode([("whose", value), *others] if value else others), word, value == present)
        for value, word in wanted
    ]


@login_required
@require_http_methods(["GET", "POST"])
def hold(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """Asks why first: whoever waits for the job will read it."""
    found = visible_job_or_404(request, ref)
    if not may_cancel(request.user, found):
        raise PermissionDenied
    because, error = request.POST.get("because", ""), ""
    if request.method == "POST":
        try:
            job_hold(job=found, actor=request.user, reason=because)
        except Refused as refused:
            error = _why_not(refused)
        else:
            return HttpResponseRedirect(reverse("web:queue"))
    is_waiting = JobStatus(found.status) in JOB_WAITING
    context = {"job": found, "because": because, "error": error, "is_waiting": is_waiting}
    return render(request, "web/queue/hold.html", context)


@login_required
@require_POST
def release(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    found = visible_job_or_404(request, ref)
    try:
        job_release(job=found, actor=request.user)
    except Refused as refused:
        if refused.status == 403:
            raise PermissionDenied from refused
    return HttpResponseRedirect(reverse("web:queue"))


def _why_not(refused: Refused) -> str:
    match refused.code:
        case "reason_missing":
            return _("Say why in a few words: whoever waits for it will read it")
        case "not_waiting":
            return _("It does not wait any more, so there is nothing to hold")
    return refusal_text(refused)
