"""One job: why it is where it is, its timeline, logs, events, spec and results."""

import shlex
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from portal.errors import Refused
from portal.jobs.logs import read_log
from portal.jobs.models import Job
from portal.jobs.replacing import job_replace
from portal.jobs.selectors import job_visible, may_cancel, replica_of
from portal.jobs.services import job_cancel
from portal.web.job_story import TABS, story
from portal.web.person import person
from portal.web.request_extras import changes_in
from portal.web.request_form import limits
from scheduler.core.request import RequestRefused, parse_stored, request_as_yaml
from scheduler.core.states import JOB_FINAL, JobStatus

MAX_RAW_BYTES = 64 << 20


@login_required
def job(request: HttpRequest, ref: str) -> HttpResponse:
    found = visible(request, ref)
    tab = request.GET.get("tab", "logs")
    context = story(
        person(request), found, tab=tab if tab in TABS else "logs", rank=rank_in(request)
    )
    asked = parse_stored(found.request)
    context |= {"yaml": request_as_yaml(asked), "command": shlex.join(asked.command)}
    return render(request, "web/job.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def cancel(request: HttpRequest, ref: str) -> HttpResponse:
    """Asks first: what a job kept in memory is lost."""
    found = visible(request, ref)
    if not may_cancel(person(request), found):
        raise PermissionDenied
    is_over = JobStatus(found.status) in JOB_FINAL
    if request.method == "GET" and not is_over:
        return render(request, "web/cancel.html", {"job": found})
    if not is_over:
        job_cancel(job=found, actor=person(request).username)
    return HttpResponseRedirect(reverse("web:job", args=[found.label]))


@login_required
@require_POST
def instead(request: HttpRequest, ref: str) -> HttpResponse:
    """Take an alternative: another job stands where this one stood. Where that cannot be, the form
    with the change says why."""
    found = visible(request, ref)
    text = request.POST.get("change", "")
    try:
        changes = changes_in(text)
        new = job_replace(job=found, by=person(request), changes=changes, limits=limits())
    except (Refused, RequestRefused):
        query = urlencode({"like": found.label, "change": text})
        return HttpResponseRedirect(f"{reverse('web:request')}?{query}")
    return HttpResponseRedirect(reverse("web:job", args=[new.label]))


@login_required
def raw_log(request: HttpRequest, ref: str) -> HttpResponse:
    """One replica's log as it came, as plain text for download."""
    try:
        replica = replica_of(visible(request, ref), rank=rank_in(request) or 0)
    except Refused as refused:
        raise Http404 from refused
    answer = HttpResponse(read_log(replica, 0, MAX_RAW_BYTES), content_type="text/plain")
    answer["Content-Disposition"] = f'attachment; filename="{ref}-rank-{replica.rank}.log"'
    return answer


def visible(request: HttpRequest, ref: str) -> Job:
    """The job, or 404: foreign and unknown ones look the same."""
    try:
        return job_visible(person(request), ref)
    except Refused as refused:
        raise Http404 from refused


def rank_in(request: HttpRequest) -> int | None:
    """The one replica that the address asks for, if it does."""
    text = request.GET.get("rank", "")
    return int(text) if text.isdecimal() and len(text) < 5 else None
