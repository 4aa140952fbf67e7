"""One's webhooks in the browser: the same services as REST."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from portal.accounts.models import Membership, Project, Role, User
from portal.admin_base import show_refusals
from portal.errors import Refused
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text
from portal.webhooks.models import MAX_URL, Delivery, Endpoint
from portal.webhooks.selectors import (
    endpoint_deliveries,
    visible_delivery,
    visible_endpoint,
    visible_endpoints,
)
from portal.webhooks.services import delivery_resend, endpoint_add, endpoint_remove, endpoint_test
from portal.webhooks.values import DeliveryStatus
from scheduler.core.model.states import JOB_FINAL

MAX_DELIVERIES = 25
FIELDS = ("name", "url", "project", "when")


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
@sensitive_variables("secret")
def webhooks(request: AuthenticatedHttpRequest) -> HttpResponse:
    """All of them; a new one shows its secret in this answer and never again."""
    if request.method == "GET":
        return _page(request)
    asked = {name: request.POST.get(name, "").strip() for name in FIELDS}
    if errors := _mistakes(asked):
        return _page(request, asked=asked, errors=errors, status=400)
    try:
        row, secret = _add(request.user, asked)
    except Refused as refused:
        errors = {refused.field or "name": refusal_text(refused)}
        return _page(request, asked=asked, errors=errors, status=refused.status)
    return render(request, "web/webhook_made.html", {"hook": row, "secret": secret})


@require_http_methods(["GET"])
@never_cache
@login_required
def webhook(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """One of them, and what it was told lately."""
    row = _visible(request, ref)
    deliveries = list(endpoint_deliveries(row)[:MAX_DELIVERIES])
    tried = next((one for one in deliveries if one.tries), None)
    shown = {"hook": row, "deliveries": deliveries, "title": _title(row, tried)}
    return render(request, "web/webhook.html", shown)


@require_POST
@login_required
def act(request: AuthenticatedHttpRequest, ref: str, action: str) -> HttpResponse:
    """Try it, or remove it."""
    row = _visible(request, ref)
    if action == "remove":
        endpoint_remove(endpoint=row, actor=request.user)
        messages.success(request, _("Removed. It is told nothing any more"))
        return redirect("web:webhooks")
    with show_refusals(request):
        endpoint_test(endpoint=row)
        messages.success(request, _("A test message goes out within seconds. Reload to see it"))
    return redirect("web:webhook", ref)


@require_POST
@login_required
def delivery_retry(request: AuthenticatedHttpRequest, ref: str, delivery: str) -> HttpResponse:
    """Send a message once more."""
    row = _visible(request, ref)
    try:
        found = visible_delivery(row, delivery)
    except Refused as refused:
        raise Http404 from refused
    with show_refusals(request):
        delivery_resend(delivery=found)
        messages.success(request, _("It is sent again within seconds. Reload to see it"))
    return redirect("web:webhook", ref)


def _title(hook: Endpoint, tried: Delivery | None) -> str:
    """Whether what is sent arrives. `tried`: the newest message that was sent at all."""
    name = {"name": hook.name}
    if hook.off_because:
        return _("%(name)s is told nothing any more") % name
    if tried is None:
        return _("%(name)s was told nothing yet") % name
    if tried.status == DeliveryStatus.DELIVERED:
        return _("%(name)s takes what it is told") % name
    return _("%(name)s did not take the last message") % name


def _add(user: User, asked: dict[str, str]) -> tuple[Endpoint, str]:
    project = _runs(user).filter(slug=asked["project"]).first() if asked["project"] else None
    if asked["project"] and project is None:
        raise Refused("not_found", _("Choose one of your projects"), "project", 400)
    kinds = [str(status) for status in JOB_FINAL] if asked["when"] == "ends" else []
    return endpoint_add(
        user=user, name=asked["name"], url=asked["url"], project=project, kinds=kinds
    )


def _mistakes(asked: dict[str, str]) -> dict[str, str]:
    found = {}
    if not asked["name"] or len(asked["name"]) > 64 or not asked["name"].isprintable():
        found["name"] = _("Write what it is for, in 1 to 64 characters of one line")
    if not asked["url"] or len(asked["url"]) > MAX_URL:
        found["url"] = _("Write an address that begins with https://")
    return found


def _runs(user: User) -> QuerySet[Project]:
    mine = Membership.objects.filter(user=user, role=Role.ADMIN).values("project_id")
    return Project.objects.filter(pk__in=mine, archived=False).order_by("slug")


def _visible(request: AuthenticatedHttpRequest, ref: str) -> Endpoint:
    try:
        return visible_endpoint(request.user, ref)
    except Refused as refused:
        raise Http404 from refused


def _page(
    request: AuthenticatedHttpRequest,
    *,
    asked: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    user = request.user
    context = {
        "hooks": visible_endpoints(user),
        "projects": _runs(user),
        "asked": asked or {"when": "ends"},
        "errors": errors or {},
    }
    return render(request, "web/webhooks.html", context, status=status)
