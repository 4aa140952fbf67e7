"""One job: why it is where it is and its timeline, beside one of its parts. Each has an address."""

import shlex
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible, may_cancel
from portal.jobs.services import job_cancel
from portal.submission.replacement import job_replace
from portal.submission.retries import job_retry, may_retry
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job.stream import stream_address
from portal.web.job.context import tab_context
from portal.web.job.timeline import TABS, job_context
from portal.web.logs.address import log_view
from portal.web.request.form import limits, new_idempotency_key
from portal.web.request.form_conditions import parse_changes
from scheduler.core.model.states import JOB_FINAL, JOB_WAITING, JobStatus
from scheduler.core.request import RequestRefused, parse_stored


@login_required
@require_safe
def job(request: AuthenticatedHttpRequest, ref: str, tab: str = "") -> HttpResponse:
    """The job with one of its parts: the log where the address names none."""
    asked = request.GET.get("tab", "")
    if not tab and asked in TABS:
        # Addresses of earlier versions.
        return HttpResponseRedirect(reverse(f"web:job_{asked}", args=[ref]))
    found = visible_job_or_404(request, ref)
    tab = tab or "logs"
    page = job_context(request.user, found)
    paths = [reverse(name, args=[found.label]) for name in ("web:job_logs", "web:logs_full")]
    view = log_view(paths[0], request.GET.dict(), paths[1])
    context = page | tab_context(tab, found, page, view)
    stream = "" if page["is_final"] else stream_address(found, tab, context.get("log"))
    context |= {"tab": tab, "tabs": TABS, "stream": stream}
    context["command"] = shlex.join(parse_stored(found.request).command)
    context["key"] = new_idempotency_key()
    return render(request, "web/job.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def cancel(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """Asks first: what a job kept in memory is lost."""
    found = visible_job_or_404(request, ref)
    if not may_cancel(request.user, found):
        raise PermissionDenied
    is_over = JobStatus(found.status) in JOB_FINAL
    if request.method == "GET" and not is_over:
        return render(request, "web/job/cancel.html", {"job": found})
    if not is_over:
        job_cancel(job=found, actor=request.user.username)
        _tell_how_to_undo(request, found)
    return HttpResponseRedirect(reverse("web:job", args=[found.label]))


def _tell_how_to_undo(request: HttpRequest, job: Job) -> None:
    if JobStatus(job.status) in JOB_WAITING:
        said = _("%(job)s is cancelled. To undo it, ask again: the same request, as a new job")
    else:
        said = _("%(job)s is asked to stop. Once it has ended you can ask again")
    messages.success(request, said % {"job": job.label})


@login_required
@require_POST
def retry(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """The request of a job that is over, as a new job. Where that cannot be, the form says why."""
    found, user = visible_job_or_404(request, ref), request.user
    if not may_retry(user, found):
        raise PermissionDenied
    key = request.POST.get("key", "")[:64]
    try:
        new = job_retry(job=found, actor=user, limits=limits(), idempotency_key=key)
    except (Refused, RequestRefused):
        return HttpResponseRedirect(f"{reverse('web:request')}?{urlencode({'like': found.label})}")
    return HttpResponseRedirect(reverse("web:job", args=[new.label]))


@login_required
@require_POST
def take_alternative(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """Take an alternative: another job stands where this one stood. Where that cannot be, the form
    with the change says why."""
    found = visible_job_or_404(request, ref)
    text = request.POST.get("change", "")
    try:
        changes = parse_changes(text)
        new = job_replace(job=found, actor=request.user, changes=changes, limits=limits())
    except (Refused, RequestRefused):
        query = urlencode({"like": found.label, "change": text})
        return HttpResponseRedirect(f"{reverse('web:request')}?{query}")
    return HttpResponseRedirect(reverse("web:job", args=[new.label]))


def visible_job_or_404(request: AuthenticatedHttpRequest, ref: str) -> Job:
    """The job, or 404: foreign and unknown ones look the same."""
    try:
        return job_visible(request.user, ref)
    except Refused as refused:
        raise Http404 from refused
