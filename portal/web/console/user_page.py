"""One account: how its owner signs in, where they are a member, and what a platform admin may do
about it, each after a page or a button that says what it ends."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.accounts.models import User
from portal.accounts.people import (
    platform_admin_set,
    sign_in_link_create,
    user_activate,
    user_deactivate,
)
from portal.accounts.profiles import second_steps_remove
from portal.accounts.selectors import memberships_of, tokens_of
from portal.accounts.sessions import active_sessions
from portal.errors import Refused
from portal.jobs.models import Job
from portal.web.account.sessions import browser_of
from portal.web.account.views import second_steps
from portal.web.console.access import platform_admins_only
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages
from portal.web.wording.messages import refusal_text

MAX_NAME = 150


@platform_admins_only
@require_safe
def user(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    return render(request, "web/console/user.html", user_context(request, user_or_404(name)))


@platform_admins_only
@require_POST
@never_cache
def link(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    """A link by which the owner sets a new password; shown in this answer only."""
    return render_link(request, user_or_404(name))


@platform_admins_only
@require_POST
def second_steps_reset(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    """For an owner who lost phone and recovery codes. One's own end on the account page, which asks
    for them first."""
    row = user_or_404(name)
    if row.pk == request.user.pk:
        messages.error(request, _("Your own second steps are on your account page"))
        return redirect("web:account")
    second_steps_remove(user=row, actor=request.user.username)
    messages.success(request, _("%(user)s signs in without a second step") % {"user": name})
    return redirect("web:user", row.username)


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def deactivate(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    """A page that says what it ends, then the end of it."""
    row = user_or_404(name)
    if request.method == "POST":
        with refusals_as_messages(request):
            user_deactivate(user=row, actor=request.user.username)
            messages.success(request, _("%(user)s is deactivated") % {"user": row.username})
        return redirect("web:user", row.username)
    context = user_context(request, row)
    return render(request, "web/console/user_deactivate.html", context)


@platform_admins_only
@require_POST
def activate(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    row = user_or_404(name)
    user_activate(user=row, actor=request.user.username)
    messages.success(request, _("%(user)s may sign in again") % {"user": row.username})
    return redirect("web:user", row.username)


@platform_admins_only
@require_POST
def rights(request: AuthenticatedHttpRequest, name: str) -> HttpResponse:
    """Make the user a platform admin (`admin` is 1), or end that."""
    row, is_admin = user_or_404(name), request.POST.get("admin") == "1"
    with refusals_as_messages(request):
        platform_admin_set(user=row, is_platform_admin=is_admin, actor=request.user.username)
        text = (
            _("%(user)s is now a platform admin")
            if is_admin
            else _("%(user)s is no longer a platform admin")
        )
        messages.success(request, text % {"user": row.username})
    return redirect("web:user", row.username)


def user_or_404(name: str) -> User:
    row = User.objects.filter(username=name[:MAX_NAME]).first()
    if row is None:
        raise Http404
    return row


def user_context(request: HttpRequest, row: User) -> dict[str, Any]:
    jobs = Job.objects.filter(owner=row).select_related("project")
    return {
        "person": row,
        "second_steps": second_steps(row),
        "browsers": [browser_of(session, request) for session in active_sessions(row)],
        "tokens": tokens_of(row).count(),
        "memberships": memberships_of(row),
        "running": jobs.allocated().count(),
        "waiting": jobs.waiting().count(),
        "now": timezone.now(),
    }


@sensitive_variables("token", "address")
def render_link(request: AuthenticatedHttpRequest, row: User) -> HttpResponse:
    try:
        uid, token = sign_in_link_create(user=row, actor=request.user.username)
    except Refused as refused:
        messages.error(request, refusal_text(refused))
        return redirect("web:user", row.username)
    address = request.build_absolute_uri(reverse("web:welcome", args=[uid, token]))
    days = settings.PASSWORD_RESET_TIMEOUT // 86_400
    context = {"person": row, "address": address, "days": days}
    return render(request, "web/console/user_link.html", context)
