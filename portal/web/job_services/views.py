"""The pages of services: the list, a new one, one with its copies; Open, change, promote its
canary, end."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.accounts.selectors import projects_to_work_in
from portal.apps.application import ENTER
from portal.apps.hosts import AppName, app_address
from portal.apps.visits import service_visit_begin
from portal.errors import Refused
from portal.job_services.models import JobService
from portal.job_services.ready_requests import READY_SERVICES
from portal.job_services.selectors import may_change, service_visible
from portal.job_services.services import (
    service_change,
    service_create,
    service_end,
    service_promote,
    values_of,
)
from portal.job_services.values import ServiceValues
from portal.submission.limits import request_limits
from portal.web.http import AuthenticatedHttpRequest
from portal.web.job_services.context import service_context, services_context
from portal.web.job_services.form import CANARY, ServiceForm, new_form, typed_form
from portal.web.wording.messages import refusal_text
from portal.web.written_request import read_written_request
from scheduler.core.request import InvalidRequest


@login_required
@require_safe
def services(request: AuthenticatedHttpRequest) -> HttpResponse:
    context = services_context(request.user)
    return render(request, "web/job_services/list.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def new(request: AuthenticatedHttpRequest) -> HttpResponse:
    slugs = list(projects_to_work_in(request.user).order_by("slug").values_list("slug", flat=True))
    form, status = new_form(request.GET.get("template", ""), slugs[0] if slugs else ""), 200
    if request.method == "POST":
        form = typed_form(request)
        try:
            if values := form.service_values(ServiceValues()):
                body = dict(read_written_request(form.values.get("request", "")))
                row = service_create(
                    actor=request.user,
                    name=form.values.get("name", ""),
                    body=body | {"project": form.values.get("project", "")},
                    values=values,
                    limits=request_limits(),
                )
                return _page(row)
            status = 400
        except (Refused, InvalidRequest) as refused:
            status = form.add_refusal(refused)
    context = {"form": form, "slugs": slugs, "ready": READY_SERVICES.items()}
    return render(request, "web/job_services/new.html", context, status=status)


@login_required
@require_safe
def service(request: AuthenticatedHttpRequest, service: str) -> HttpResponse:
    row = _visible(request, service)
    return _shown(request, row, ServiceForm({}))


@login_required
@require_POST
def change(request: AuthenticatedHttpRequest, service: str) -> HttpResponse:
    """How many copies it has, or its canary. What it runs is changed elsewhere: by REST or the
    command line."""
    row = _changeable(request, service)
    form, names = typed_form(request), ("min_copies", "max_copies", *CANARY)
    form.values = {name: text for name, text in form.values.items() if name in names}
    status = 400
    try:
        canary = form.canary_values()
        if values := form.service_values(values_of(row)):
            service_change(
                service=row,
                actor=request.user,
                values=values,
                canary=canary,
                limits=request_limits(),
                version=row.version,
            )
            messages.success(request, _("Saved"))
            return _page(row)
    except (Refused, InvalidRequest) as refused:
        status = form.add_refusal(refused)
    return _shown(request, row, form, status=status)


@login_required
@require_POST
def promote(request: AuthenticatedHttpRequest, service: str) -> HttpResponse:
    row, form = _changeable(request, service), ServiceForm({})
    try:
        service_promote(
            service=row, actor=request.user, limits=request_limits(), version=row.version
        )
    except (Refused, InvalidRequest) as refused:
        return _shown(request, row, form, status=form.add_refusal(refused))
    text = _("%(service)s takes over what its canary runs, one copy after another")
    messages.success(request, text % {"service": row.label})
    return _page(row)


@login_required
@require_http_methods(["GET", "POST"])
def end(request: AuthenticatedHttpRequest, service: str) -> HttpResponse:
    """A GET asks for confirmation."""
    row = _changeable(request, service)
    if request.method == "GET" and row.ended_at is None:
        return render(request, "web/job_services/end.html", {"service": row})
    if request.method == "POST":
        service_end(service=row, actor=request.user)
        text = _("%(service)s ends. Its copies answer the calls that they have")
        messages.success(request, text % {"service": row.label})
    return _page(row)


@login_required
@require_POST
def open_service(request: AuthenticatedHttpRequest, service: str) -> HttpResponse:
    """A page that leads to the service's own host, as for an app of a job."""
    row = _visible(request, service)
    domain = settings.PLATFORM.apps_domain
    if not domain:
        raise Http404
    portal = f"{request.scheme}://{request.get_host()}"
    try:
        ticket = service_visit_begin(
            service=row,
            user=request.user,
            session_key=request.session.session_key or "",
            origin=portal,
        )
    except Refused as refused:
        if refused.status == 404:
            raise Http404 from refused
        context = {"service": row, "refusal": refusal_text(refused)}
        return render(request, "web/job_services/open.html", context, status=refused.status)
    address = app_address(AppName(0, row.name, row.pk), domain, portal)
    context = {"service": row, "address": address + ENTER, "ticket": ticket}
    response = render(request, "web/job_services/open.html", context)
    # The service's host looks at the origin: with less, browsers would not name it.
    response["Referrer-Policy"] = "strict-origin"
    response["Cache-Control"] = "no-store"
    response._csp_update = {"form-action": [address]}  # type: ignore[attr-defined]  # of django-csp
    return response


def _shown(
    request: AuthenticatedHttpRequest, row: JobService, form: ServiceForm, *, status: int = 200
) -> HttpResponse:
    present = {"min_copies": str(row.min_copies), "max_copies": str(row.max_copies)}
    present |= {
        "canary": row.canary.label if row.canary else "",
        "canary_percent": str(row.canary_percent),
    }
    form.values = present | form.values
    context = service_context(request, request.user, row) | {"form": form}
    return render(request, "web/job_services/service.html", context, status=status)


def _page(row: JobService) -> HttpResponseRedirect:
    return redirect("web:service", row.label)


def _visible(request: AuthenticatedHttpRequest, ref: str) -> JobService:
    """A service that the user may not see gives the same 404 as one that does not exist."""
    try:
        return service_visible(request.user, ref)
    except Refused as refused:
        raise Http404 from refused


def _changeable(request: AuthenticatedHttpRequest, ref: str) -> JobService:
    row = _visible(request, ref)
    if not may_change(request.user, row):
        raise PermissionDenied
    return row
