"""The approvals inbox: a project admin sees those of their projects, a platform admin all."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from portal.errors import Refused
from portal.planning.partition_preview import (
    GpuChange,
    PartitionAction,
    PartitionPreview,
    PreviewOutcome,
    partition_preview,
)
from portal.submission.approvals import (
    MAX_DECISIONS,
    StartIfApproved,
    approval_requests,
    approvals_decide,
    jobs_to_approve,
    may_decide_approvals,
    starts_if_approved,
)
from portal.web.console.partition_drawing import draw_changes
from portal.web.console.planner import should_run_planner
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.evidence import evidence_rows
from portal.web.wording.messages import refusal_text, stored_text
from portal.web.wording.start_estimates import ExpectedStart, start_from_estimate

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class StartForecast:
    """A start in words: when, or why not at once."""

    starts_now: bool
    estimate: ExpectedStart | None
    reason: str


@login_required
@require_http_methods(["GET", "POST"])
def approvals(request: AuthenticatedHttpRequest) -> HttpResponse:
    user = request.user
    if not may_decide_approvals(user):
        raise Http404
    if request.method == "POST":
        return _decide(request)
    return _page(request)


@login_required
def approval(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """One job: the whole of what was asked, and what a yes would do to the cluster."""
    jobs = jobs_to_approve(request.user)
    number = ref.removeprefix("J-")
    job = jobs.filter(pk=int(number)).first() if number.isdecimal() and len(number) < 19 else None
    if job is None:
        raise Http404
    context: dict[str, Any] = {
        "one": approval_requests([job])[0],
        "evidence": evidence_rows(job.reason or {}),
    }
    if should_run_planner(request):
        start = _foreseen(starts_if_approved([job])[job.pk])
        changes = draw_changes(_for_it(partition_preview(job=job)))
        context |= {"start": start, "changes": changes, "is_asked": True}
    return render(request, "web/console/approval.html", context)


def _page(request: AuthenticatedHttpRequest, because: str = "", error: str = "") -> HttpResponse:
    rows = jobs_to_approve(request.user)
    count = rows.count()
    jobs = list(rows[:PAGE_SIZE])
    with_starts = bool(jobs) and should_run_planner(request)
    starts = starts_if_approved(jobs) if with_starts else {}
    chosen = request.POST.getlist("job")
    context = {
        "rows": [(one, _foreseen(starts.get(one.job.pk))) for one in approval_requests(jobs)],
        "count": count,
        "more": count - len(jobs),
        "with_starts": with_starts,
        "because": because,
        "error": error,
        "chosen": chosen,
        "headline": _headline(count),
    }
    status = 400 if error else 200
    return render(request, "web/console/approvals.html", context, status=status)


def _decide(request: AuthenticatedHttpRequest) -> HttpResponse:
    verdict = request.POST.get("verdict", "")
    verb, _colon, single = verdict.partition(":")
    if verb not in ("approve", "refuse"):
        return _page(request, error=_("Choose approve or refuse"))
    refs = [single] if single else request.POST.getlist("job")
    because = request.POST.get("because", "")[:200]
    try:
        decided = approvals_decide(
            refs=refs[: MAX_DECISIONS + 1],
            actor=request.user,
            approve=verb == "approve",
            reason=because,
        )
    except Refused as refused:
        return _page(request, because, refusal_text(refused))
    done = [ref for ref, wrong in decided if wrong is None]
    if done:
        said = _("Approved: %(jobs)s") if verb == "approve" else _("Refused: %(jobs)s")
        messages.success(request, said % {"jobs": ", ".join(done)})
    for ref, wrong in decided:
        if wrong is not None:
            said = _("%(job)s: %(why)s") % {"job": ref[:20], "why": refusal_text(wrong)}
            messages.error(request, said)
    return redirect("web:approvals")


def _for_it(preview: PartitionPreview) -> list[GpuChange]:
    """The GPUs that the job itself would change; not what is prepared for others meanwhile."""
    makes_room = preview.job is not None and preview.job.outcome is PreviewOutcome.PARTITION
    steps = (
        {PartitionAction.PLACE, PartitionAction.MERGE} if makes_room else {PartitionAction.PLACE}
    )
    return [one for one in preview.changes if any(done.action in steps for done in one.steps)]


def _foreseen(start: StartIfApproved | None) -> StartForecast | None:
    if start is None:
        return None
    found = start_from_estimate(start.estimate) if start.estimate else None
    return StartForecast(start.at_once, found, stored_text(start.reason) if start.reason else "")


def _headline(count: int) -> str:
    if not count:
        return _("Nothing waits for your approval")
    return ngettext(
        "%(n)s job waits for your approval", "%(n)s jobs wait for your approval", count
    ) % {"n": count}
