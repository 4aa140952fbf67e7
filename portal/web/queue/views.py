"""The Queue page: all waiting jobs in planner order, each with its reason; hold and release."""

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from portal.errors import Refused
from portal.jobs.holds import job_hold, job_release
from portal.jobs.selectors import may_cancel
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job.access import visible_job_or_404
from portal.web.project_choice import follows_project_choice, project_choice
from portal.web.queue.context import queue_context
from portal.web.wording.messages import refusal_text
from scheduler.core.model.states import JOB_WAITING, JobStatus


@login_required
@follows_project_choice
def queue(request: AuthenticatedHttpRequest) -> HttpResponse:
    memberships = project_choice(request).memberships
    context = queue_context(request.user, request.GET, memberships)
    return render(request, "web/queue.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def hold(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """A GET asks for the reason, which the job's owner will read."""
    job = visible_job_or_404(request, ref)
    if not may_cancel(request.user, job):
        raise PermissionDenied
    reason, error = request.POST.get("reason", ""), ""
    if request.method == "POST":
        try:
            job_hold(job=job, actor=request.user, reason=reason)
        except Refused as refused:
            error = _hold_error(refused)
        else:
            return HttpResponseRedirect(reverse("web:queue"))
    is_waiting = JobStatus(job.status) in JOB_WAITING
    context = {"job": job, "reason": reason, "error": error, "is_waiting": is_waiting}
    return render(request, "web/queue/hold.html", context)


@login_required
@require_POST
def release(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    job = visible_job_or_404(request, ref)
    try:
        job_release(job=job, actor=request.user)
    except Refused as refused:
        if refused.status == 403:
            raise PermissionDenied from refused
    return HttpResponseRedirect(reverse("web:queue"))


def _hold_error(refused: Refused) -> str:
    match refused.code:
        case "reason_missing":
            return _("Enter a short reason: the job's owner will read it")
        case "not_waiting":
            return _("The job is no longer waiting, so it cannot be held")
    return refusal_text(refused)
