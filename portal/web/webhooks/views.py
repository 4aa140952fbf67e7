"""The user's webhooks: list, add, test, remove, and their deliveries."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from portal.errors import Refused
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages
from portal.web.webhooks.forms import FORMATS, WebhookForm
from portal.web.wording.messages import refusal_text
from portal.webhooks.models import Delivery, Endpoint
from portal.webhooks.selectors import (
    endpoint_deliveries,
    visible_delivery,
    visible_endpoint,
    visible_endpoints,
)
from portal.webhooks.services import delivery_resend, endpoint_add, endpoint_remove, endpoint_test
from portal.webhooks.values import DeliveryStatus

MAX_DELIVERIES = 25


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
@sensitive_variables("secret")
def webhooks(request: AuthenticatedHttpRequest) -> HttpResponse:
    """List the webhooks and add one. The secret of a new webhook is shown in this answer only."""
    if request.method == "GET":
        return _page(request, WebhookForm(user=request.user))
    form = WebhookForm(request.POST, user=request.user)
    if not form.is_valid():
        return _page(request, form, status=400)
    try:
        row, secret = endpoint_add(
            user=request.user,
            name=form.cleaned_data["name"],
            url=form.cleaned_data["url"],
            project=form.cleaned_data["project"],
            kinds=form.kinds(),
            format=form.chat_format(),
        )
    except Refused as refused:
        name = refused.field if refused.field in form.fields else "name"
        form.add_error(name, refusal_text(refused))
        return _page(request, form, status=refused.status)
    if row.is_chat:
        messages.success(request, _("Added. Send a test to see it in the chat"))
        return redirect("web:webhook", row.uid)
    return render(request, "web/webhooks/secret.html", {"hook": row, "secret": secret})


@require_http_methods(["GET"])
@never_cache
@login_required
def webhook(request: AuthenticatedHttpRequest, ref: str) -> HttpResponse:
    """One webhook and its latest deliveries."""
    row = _visible(request, ref)
    deliveries = list(endpoint_deliveries(row)[:MAX_DELIVERIES])
    latest = next((delivery for delivery in deliveries if delivery.tries), None)
    context = {"hook": row, "deliveries": deliveries, "title": _title(row, latest)}
    return render(request, "web/webhooks/detail.html", context)


@require_POST
@login_required
def act(request: AuthenticatedHttpRequest, ref: str, action: str) -> HttpResponse:
    """Send a test message, or remove the webhook."""
    row = _visible(request, ref)
    if action == "remove":
        endpoint_remove(endpoint=row, actor=request.user)
        messages.success(request, _("Webhook removed. It receives no more messages"))
        return redirect("web:webhooks")
    with refusals_as_messages(request):
        endpoint_test(endpoint=row)
        messages.success(request, _("A test message will be sent within seconds. Reload to see it"))
    return redirect("web:webhook", ref)


@require_POST
@login_required
def delivery_retry(request: AuthenticatedHttpRequest, ref: str, delivery: str) -> HttpResponse:
    """Send a message again."""
    row = _visible(request, ref)
    try:
        message = visible_delivery(row, delivery)
    except Refused as refused:
        raise Http404 from refused
    with refusals_as_messages(request):
        delivery_resend(delivery=message)
        messages.success(
            request, _("The message will be sent again within seconds. Reload to see it")
        )
    return redirect("web:webhook", ref)


def _title(hook: Endpoint, latest: Delivery | None) -> str:
    """Whether messages arrive, going by the latest one that was sent."""
    name = {"name": hook.name}
    if hook.off_reason:
        return _("%(name)s is switched off") % name
    if latest is None:
        return _("%(name)s has received no message yet") % name
    if latest.status == DeliveryStatus.DELIVERED:
        return _("%(name)s receives its messages") % name
    return _("The last message to %(name)s was not delivered") % name


def _visible(request: AuthenticatedHttpRequest, ref: str) -> Endpoint:
    try:
        return visible_endpoint(request.user, ref)
    except Refused as refused:
        raise Http404 from refused


def _page(
    request: AuthenticatedHttpRequest, form: WebhookForm, *, status: int = 200
) -> HttpResponse:
    context = {"hooks": visible_endpoints(request.user), "form": form, "projects": form.projects}
    context["formats"] = [(str(chat), label) for chat, label in FORMATS.items()]
    return render(request, "web/webhooks/list.html", context, status=status)
