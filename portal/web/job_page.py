"""One job: why it is where it is and its timeline, beside one of its parts. Each has an address."""

import shlex
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.replacing import job_replace
from portal.jobs.selectors import job_visible, may_cancel
from portal.jobs.services import job_cancel
from portal.web.job_parts import part_of
from portal.web.job_story import TABS, story
from portal.web.log_view import log_view
from portal.web.person import person
from portal.web.request_extras import changes_in
from portal.web.request_form import limits
from scheduler.core.request import RequestRefused, parse_stored
from scheduler.core.states import JOB_FINAL, JobStatus


@login_required
@require_safe
def job(request: HttpRequest, ref: str, tab: str = "") -> HttpResponse:
    """The job with one of its parts: the log where the address names none."""
    asked = request.GET.get("tab", "")
    if not tab and asked in TABS:
        # Addresses of earlier versions.
        return HttpResponseRedirect(reverse(f"web:job_{asked}", args=[ref]))
    found = visible(request, ref)
    tab = tab or "logs"
    page = story(person(request), found)
    view = log_view(reverse("web:job_logs", args=[found.label]), request.GET.dict())
    context = page | part_of(tab, found, page, view)
    context |= {"tab": tab, "tabs": TABS, "stream": _stream(found, tab, context)}
    context["command"] = shlex.join(parse_stored(found.request).command)
    return render(request, "web/job.html", context)


def _stream(found: Job, tab: str, context: dict[str, Any]) -> str:
    """Where the page goes on live; nowhere once the job has ended."""
    if context["is_final"]:
        return ""
    fields: dict[str, Any] = {"tab": tab}
    if log := context.get("log"):
        if log.view.is_end and log.is_last_attempt:
            fields["from"] = str(log.cursor)
            fields |= {} if log.view.rank is None else {"rank": log.view.rank}
        else:
            fields["tab"] = "page"
    return f"{reverse('web:stream', args=[found.label])}?{urlencode(fields)}"


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


def visible(request: HttpRequest, ref: str) -> Job:
    """The job, or 404: foreign and unknown ones look the same."""
    try:
        return job_visible(person(request), ref)
    except Refused as refused:
        raise Http404 from refused
