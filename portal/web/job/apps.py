"""The apps of a job: the card on its page, and Open."""

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_POST

from portal.accounts.models import User
from portal.apps.access import job_apps, may_visit
from portal.apps.application import ENTER
from portal.apps.hosts import AppName, app_host
from portal.apps.visits import visit_begin
from portal.errors import Refused
from portal.jobs.models import Job
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job.access import visible_job_or_404
from portal.web.wording.messages import refusal_text
from scheduler.core.model.states import JOB_FINAL, JobStatus


@dataclass(frozen=True, slots=True)
class AppRow:
    """An app as the card shows it. `host`: empty where the portal serves no apps."""

    name: str
    port: int
    host: str


@dataclass(frozen=True, slots=True)
class AppsCard:
    rows: tuple[AppRow, ...]
    is_on: bool
    """The portal serves apps."""
    is_running: bool
    may_open: bool


def apps_card(user: User, job: Job) -> AppsCard | None:
    """None for a job without apps and for one that has ended. One query for others."""
    ports = job_apps(job)
    if not ports or JobStatus(job.status) in JOB_FINAL:
        return None
    domain = settings.PLATFORM.apps_domain
    rows = tuple(
        AppRow(name, port, app_host(AppName(job.pk, name), domain) if domain else "")
        for name, port in ports.items()
    )
    is_running = job.status == JobStatus.RUNNING
    return AppsCard(rows, bool(domain), is_running, may_visit(user, job))


@login_required
@require_POST
def app_open(request: AuthenticatedHttpRequest, ref: str, app: str) -> HttpResponse:
    """A page that leads to the app's own host. A redirect would not do: a form of the portal may
    only end on the portal, by its Content-Security-Policy."""
    job = visible_job_or_404(request, ref)
    domain = settings.PLATFORM.apps_domain
    context: dict[str, object] = {"job": job, "app": app}
    if not domain:
        raise Http404
    try:
        session_key = request.session.session_key or ""
        ticket = visit_begin(job=job, app=app, user=request.user, session_key=session_key)
    except Refused as refused:
        if refused.status == 404:
            raise Http404 from refused
        context["refusal"] = refusal_text(refused)
        return render(request, "web/job/app_open.html", context, status=refused.status)
    _, colon, port = request.get_host().rpartition(":")
    host = app_host(AppName(job.pk, app), domain, port if colon else "")
    query = urlencode({"ticket": ticket})
    context["address"] = f"{request.scheme}://{host}{ENTER}?{query}"
    response = render(request, "web/job/app_open.html", context)
    response["Referrer-Policy"] = "no-referrer"
    return response
