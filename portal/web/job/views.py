"""One job: its status panel, its timeline and one of its tabs; cancel, retry and alternatives."""

import shlex
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.errors import Refused
from portal.idempotency.services import call_digest
from portal.jobs.models import Job
from portal.jobs.selectors import may_cancel
from portal.jobs.services import job_cancel
from portal.submission.limits import request_limits
from portal.submission.replacement import job_replace
from portal.submission.retries import job_retry, may_retry
from portal.web.http import AuthenticatedHttpRequest
from portal.web.idempotency import job_page_once
from portal.web.job.access import visible_job_or_404
from portal.web.job.context import TABS, job_context, tab_context
from portal.web.job.files import job_files
from portal.web.job.ranks_tab import job_ranks
from portal.web.job.stream import stream_address
from portal.web.job.terminal_tab import job_terminal
from portal.web.logs.address import log_view, parse_number
from portal.web.request.form import new_idempotency_key
from portal.web.request.form_fields import parse_changes
from scheduler.core.model.states import JOB_FINAL, JOB_WAITING, JobStatus
from scheduler.core.request import InvalidRequest, parse_stored_request


@login_required
@require_safe
def job(request: AuthenticatedHttpRequest, ref: str, tab: str = "") -> HttpResponse:
    """Without a `tab`: the logs."""
    named_tab = request.GET.get("tab", "")
    if not tab and named_tab in TABS:
        # Addresses of earlier versions.
        return HttpResponseRedirect(reverse(f"web:job_{named_tab}", args=[ref]))
    row = visible_job_or_404(request, ref)
    tab = tab or "logs"
    page = job_context(request.user, row)
    paths = [reverse(name, args=[row.label]) for name in ("web:job_logs", "web:logs_full")]
    view = log_view(paths[0], request.GET.dict(), paths[1])
    context = page | tab_context(tab, request.user, row, page, view)
    if tab == "files":
        # Not with the other tabs: the page's stream does not read it again.
        context["files"] = job_files(request.user, row, request.GET)
    elif tab == "ranks":
        number = parse_number(request.GET.get("page", ""), 3) or 1
        last_event = page["events"][-1].pk if page["events"] else 0
        context["ranks"] = job_ranks(row, page["attempt"], page=number, last_event=last_event)
    elif tab == "terminal":
        rank = parse_number(request.GET.get("rank", ""), 5) or 0
        context["terminal"] = job_terminal(request.user, row, page["replicas"], rank)
    log, ranks = context.get("log"), context.get("ranks")
    stream = "" if page["is_final"] else stream_address(row, tab, log, ranks)
    context |= {"tab": tab, "tabs": TABS, "stream": stream}
    context["command"] = shlex.join(parse_stored_request(row.request).command)
    context["key"] = new_idempotency_key()
    return render(request, "web/job.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def cancel(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """A GET asks for confirmation, because what the job keeps in memory is lost."""
    row = visible_job_or_404(request, ref)
    if not may_cancel(request.user, row):
        raise PermissionDenied
    is_final = JobStatus(row.status) in JOB_FINAL
    if request.method == "GET" and not is_final:
        return render(request, "web/job/cancel.html", {"job": row})
    if not is_final:
        job_cancel(job=row, actor=request.user.username)
        _add_cancel_message(request, row)
    if request.GET.get("back") == "home":
        return HttpResponseRedirect(reverse("web:home"))
    return HttpResponseRedirect(reverse("web:job", args=[row.label]))


def _add_cancel_message(request: HttpRequest, row: Job) -> None:
    if JobStatus(row.status) in JOB_WAITING:
        text = _("%(job)s is cancelled. To undo this, retry it: the same request becomes a new job")
    else:
        text = _("%(job)s is stopping. Once it has ended, you can retry it")
    messages.success(request, text % {"job": row.label})


@login_required
@require_POST
def retry(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """Submit the request of an ended job as a new job. A refusal leads to the filled-in request
    form, which explains it."""
    row = visible_job_or_404(request, ref)
    if not may_retry(request.user, row):
        raise PermissionDenied
    key = request.POST.get("key", "")[:64]
    try:
        page = job_page_once(
            user=request.user,
            key=key,
            request_digest=call_digest("retry", row.label),
            submit=lambda: job_retry(job=row, actor=request.user, limits=request_limits()),
        )
    except (Refused, InvalidRequest):
        return _request_form(like=row.label)
    return HttpResponseRedirect(page)


@login_required
@require_POST
def take_alternative(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """Replace a waiting job by one with the changed request. A refusal leads to the request form
    with the change filled in."""
    row = visible_job_or_404(request, ref)
    change = request.POST.get("change", "")
    try:
        new = job_replace(
            job=row, actor=request.user, changes=parse_changes(change), limits=request_limits()
        )
    except (Refused, InvalidRequest):
        return _request_form(like=row.label, change=change)
    return HttpResponseRedirect(reverse("web:job", args=[new.label]))


def _request_form(**query: str) -> HttpResponse:
    return HttpResponseRedirect(f"{reverse('web:request')}?{urlencode(query)}")
