"""The apps of a job: the card on its page, and Open."""

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from portal.accounts.models import User
from portal.apps.access import app_rights, job_apps
from portal.apps.application import ENTER
from portal.apps.guests import job_with_app
from portal.apps.hosts import AppName, app_address, app_host
from portal.apps.visits import visit_begin
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import jobs_visible_to
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text
from scheduler.core.model.states import JOB_FINAL, JobStatus


@dataclass(frozen=True, slots=True)
class AppRow:
    """An app as the card shows it. `host`: empty where the portal serves no apps."""

    name: str
    port: int
    host: str
    may_open: bool


@dataclass(frozen=True, slots=True)
class AppsCard:
    rows: tuple[AppRow, ...]
    is_on: bool
    """The portal serves apps."""
    is_running: bool
    is_own: bool

    @property
    def may_open_any(self) -> bool:
        return any(row.may_open for row in self.rows)


def apps_card(user: User, job: Job) -> AppsCard | None:
    """None for a job without apps and for one that has ended. Two queries for others."""
    ports = job_apps(job)
    if not ports or JobStatus(job.status) in JOB_FINAL:
        return None
    domain = settings.PLATFORM.apps_domain
    rights = app_rights([user], [job])
    rows = tuple(
        AppRow(
            name,
            port,
            app_host(AppName(job.pk, name), domain) if domain else "",
            rights.may_visit(user, job, name),
        )
        for name, port in ports.items()
    )
    is_running = job.status == JobStatus.RUNNING
    return AppsCard(rows, bool(domain), is_running, job.owner_id == user.pk)


@login_required
@require_POST
def app_open(request: AuthenticatedHttpRequest, ref: str, app: str) -> HttpResponse:
    """A page whose form hands a ticket to the app's own host, and to no other. A redirect would put
    it into an address."""
    domain = settings.PLATFORM.apps_domain
    if not domain:
        raise Http404
    portal = f"{request.scheme}://{request.get_host()}"
    try:
        job = job_with_app(request.user, ref, app)
        ticket = visit_begin(
            job=job,
            app=app,
            user=request.user,
            session_key=request.session.session_key or "",
            origin=portal,
        )
    except Refused as refused:
        if refused.status == 404:
            raise Http404 from refused
        context = {"job": job, "app": app, "refusal": refusal_text(refused)}
        is_visible = jobs_visible_to(request.user).filter(pk=job.pk).exists()
        context["back"] = reverse("web:job", args=[ref]) if is_visible else reverse("web:apps")
        return render(request, "web/job/app_open.html", context, status=refused.status)
    address = app_address(AppName(job.pk, app), domain, portal)
    context = {"job": job, "app": app, "address": address + ENTER, "ticket": ticket}
    response = render(request, "web/job/app_open.html", context)
    # The app's host looks at the origin: with less, browsers would not name it.
    response["Referrer-Policy"] = "strict-origin"
    response["Cache-Control"] = "no-store"
    response._csp_update = {"form-action": [address]}  # type: ignore[attr-defined]  # of django-csp
    return response
