"""The approvals inbox: jobs of the projects one administers; for platform admins, of all."""

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
from portal.jobs.selectors import ARRAY_LABEL, LABEL
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
    approval_inbox,
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
from portal.web.wording.start_estimates import StartRange, start_from_estimate

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class StartForecast:
    """When a job would start if it were approved."""

    starts_now: bool
    estimate: StartRange | None
    # Why it would not start at once.
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
    """One job: its request, and what approving it would do to the cluster. Of an array, A-5, all
    members that await approval."""
    jobs, members = jobs_to_approve(request.user), dict[int, int]()
    if match := ARRAY_LABEL.fullmatch(ref):
        inbox = approval_inbox(jobs.filter(array=int(match[1]), array_index__isnull=False), 1)
        job, members = next(iter(inbox.jobs), None), inbox.members
    else:
        match = LABEL.fullmatch(ref)
        job = jobs.filter(pk=int(match[1])).first() if match else None
    if job is None:
        raise Http404
    context: dict[str, Any] = {
        "approval": approval_requests([job], members)[0],
        "evidence": evidence_rows(job.reason or {}),
    }
    if should_run_planner(request):
        start = _start_forecast(starts_if_approved([job])[job.pk])
        changes = draw_changes(_changes_for_job(partition_preview(job=job)))
        context |= {"start": start, "changes": changes, "has_planner_result": True}
    return render(request, "web/console/approval.html", context)


def _page(request: AuthenticatedHttpRequest, reason: str = "", error: str = "") -> HttpResponse:
    inbox = approval_inbox(jobs_to_approve(request.user), PAGE_SIZE)
    jobs = inbox.jobs
    with_starts = bool(jobs) and should_run_planner(request)
    starts = starts_if_approved(jobs) if with_starts else {}
    context = {
        "rows": [
            (approval, _start_forecast(starts.get(approval.job.pk)))
            for approval in approval_requests(jobs, inbox.members)
        ],
        "count": inbox.row_count,
        "more": inbox.row_count - len(jobs),
        "with_starts": with_starts,
        "reason": reason,
        "error": error,
        "selected": request.POST.getlist("job"),
        "headline": _headline(inbox.job_count),
    }
    status = 400 if error else 200
    return render(request, "web/console/approvals.html", context, status=status)


def _decide(request: AuthenticatedHttpRequest) -> HttpResponse:
    verdict = request.POST.get("verdict", "")
    verb, _colon, single = verdict.partition(":")
    if verb not in ("approve", "refuse"):
        return _page(request, error=_("Choose approve or refuse"))
    refs = [single] if single else request.POST.getlist("job")
    reason = request.POST.get("reason", "")[:200]
    try:
        decided = approvals_decide(
            refs=refs[: MAX_DECISIONS + 1],
            actor=request.user,
            approve=verb == "approve",
            reason=reason,
        )
    except Refused as refused:
        return _page(request, reason, refusal_text(refused))
    done = [ref for ref, refusal in decided if refusal is None]
    if done:
        text = _("Approved: %(jobs)s") if verb == "approve" else _("Refused: %(jobs)s")
        messages.success(request, text % {"jobs": ", ".join(done)})
    for ref, refusal in decided:
        if refusal is not None:
            names = {"job": ref[:20], "why": refusal_text(refusal)}
            messages.error(request, _("%(job)s: %(why)s") % names)
    return redirect("web:approvals")


def _changes_for_job(preview: PartitionPreview) -> list[GpuChange]:
    """The GPUs that would change for the job itself, without prewarming for others."""
    makes_room = preview.job is not None and preview.job.outcome is PreviewOutcome.PARTITION
    steps = (
        {PartitionAction.PLACE, PartitionAction.MERGE} if makes_room else {PartitionAction.PLACE}
    )
    return [
        change for change in preview.changes if any(step.action in steps for step in change.steps)
    ]


def _start_forecast(start: StartIfApproved | None) -> StartForecast | None:
    if start is None:
        return None
    estimate = start_from_estimate(start.estimate) if start.estimate else None
    reason = stored_text(start.reason) if start.reason else ""
    return StartForecast(start.at_once, estimate, reason)


def _headline(count: int) -> str:
    if not count:
        return _("Nothing waits for your approval")
    return ngettext(
        "%(n)s job waits for your approval", "%(n)s jobs wait for your approval", count
    ) % {"n": count}
