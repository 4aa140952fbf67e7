"""Who reaches apps: what others share with the reader, guests of an app, tokens of programs."""

from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from portal.accounts.selectors import projects_to_work_in
from portal.apps.access import job_apps
from portal.apps.guests import (
    app_guest_add,
    app_guest_remove,
    app_guests,
    guest_apps,
    job_with_app,
    may_remove_guests,
)
from portal.apps.hosts import AppName, app_address
from portal.apps.tokens import (
    app_token_create,
    app_token_of,
    app_token_revoke,
    app_tokens_of,
)
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import is_working_owner, job_visible
from portal.web.app_access.forms import AppTokenForm
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages
from portal.web.wording.messages import refusal_text


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
@sensitive_variables("secret")
def apps(request: AuthenticatedHttpRequest) -> HttpResponse:
    """What is shared with the reader, and their tokens. A POST creates a token, whose secret is in
    this answer only. `?opens=J-12/web` offers that app in the form."""
    opens = request.POST.get("opens", request.GET.get("opens", ""))
    choices = _choices(request, opens)
    if request.method != "POST":
        form = AppTokenForm(choices=choices, initial={"opens": opens})
        return _apps_page(request, form)
    form = AppTokenForm(request.POST, choices=choices)
    if not form.is_valid():
        return _apps_page(request, form, status=400)
    ref, _slash, app = form.cleaned_data["opens"].partition("/")
    try:
        job = job_with_app(request.user, ref, app) if app else None
        project = job.project if job else projects_to_work_in(request.user).get(slug=ref)
        token, secret = app_token_create(
            user=request.user,
            name=form.cleaned_data["name"],
            project=project,
            job=job,
            app=app,
            ttl=timedelta(days=form.cleaned_data["days"]),
        )
    except Refused as refused:
        form.add_error("opens" if refused.field == "app" else "name", refusal_text(refused))
        return _apps_page(request, form, status=refused.status)
    name = AppName(job.pk, app) if job else None
    context = {"token": token, "secret": secret}
    context["address"] = _address(request, name) if name else ""
    return render(request, "web/app_access/token_created.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def token_revoke(request: AuthenticatedHttpRequest, key: str) -> HttpResponse:
    """Ask, then delete the token. Another user's answers 404."""
    token = app_token_of(request.user, key)
    if token is None:
        raise Http404
    if request.method == "POST":
        app_token_revoke(token=token, actor=request.user)
        messages.success(request, _("Token revoked. What is open with it ends within 5 seconds"))
        return redirect("web:apps")
    context = {"token": token, "address": reverse("web:apps")}
    return render(request, "web/app_access/token_revoke.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def guests(request: AuthenticatedHttpRequest, ref: str, app: str) -> HttpResponse:
    """The people with whom an app is shared: for its owner, and for admins of the project."""
    job = _job_of_guests(request, ref, app)
    error, username, status = "", "", 200
    if request.method == "POST":
        username = request.POST.get("user", "").strip()
        try:
            if not username:
                raise Refused(ErrorCode.INVALID_FIELD, "Enter a user name", "user")
            guest = app_guest_add(job=job, app=app, username=username, actor=request.user)
        except Refused as refused:
            error, status = refusal_text(refused), refused.status
        else:
            done = _("%(name)s may open %(app)s now") % {"name": guest.user.username, "app": app}
            messages.success(request, done)
            return redirect("web:app_guests", job.label, app)
    context = {
        "job": job,
        "app": app,
        "guests": app_guests(job, app),
        "may_add": is_working_owner(request.user, job),
        "username": username,
        "error": error,
        "link": request.build_absolute_uri(reverse("web:apps")),
    }
    return render(request, "web/app_access/guests.html", context, status=status)


@require_POST
@login_required
def guest_remove(request: AuthenticatedHttpRequest, ref: str, app: str, guest: str) -> HttpResponse:
    """Take the app back from a person."""
    job = _job_of_guests(request, ref, app)
    with refusals_as_messages(request):
        app_guest_remove(job=job, app=app, username=guest, actor=request.user)
        gone = _("%(name)s may not open %(app)s any more") % {"name": guest, "app": app}
        messages.success(request, gone)
    return redirect("web:app_guests", job.label, app)


def _job_of_guests(request: AuthenticatedHttpRequest, ref: str, app: str) -> Job:
    try:
        job = job_visible(request.user, ref)
    except Refused as refused:
        raise Http404 from refused
    if app not in job_apps(job) or not may_remove_guests(request.user, job):
        raise Http404
    return job


def _choices(request: AuthenticatedHttpRequest, opens: str) -> list[tuple[str, str]]:
    """What a token may open: the app that the address names, and the reader's projects."""
    slugs = projects_to_work_in(request.user).order_by("slug").values_list("slug", flat=True)
    projects = [(slug, _("All apps of %(project)s") % {"project": slug}) for slug in slugs]
    ref, slash, app = opens.partition("/")
    try:
        job = job_with_app(request.user, ref, app) if slash else None
    except Refused:
        job = None
    if job is None or app not in job_apps(job):
        return projects
    return [(opens, _("%(app)s of %(job)s") % {"app": app, "job": job.label}), *projects]


def _apps_page(
    request: AuthenticatedHttpRequest, form: AppTokenForm, *, status: int = 200
) -> HttpResponse:
    shared = [
        {"guest": guest, "address": _address(request, AppName(guest.job_id, guest.app))}
        for guest in guest_apps(request.user)
    ]
    context = {
        "shared": shared,
        "tokens": app_tokens_of(request.user),
        "form": form,
        "now": timezone.now(),
        "is_on": bool(settings.PLATFORM.apps_domain),
    }
    return render(request, "web/app_access/apps.html", context, status=status)


def _address(request: AuthenticatedHttpRequest, name: AppName) -> str:
    portal = f"{request.scheme}://{request.get_host()}"
    return app_address(name, settings.PLATFORM.apps_domain, portal)
