"""The planner's policy: changed in two steps, with what changes shown first; and its history."""

import os
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from portal.audit.selectors import audit_trail
from portal.configuration.report import setting_rows
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.quotas.models import PlannerPolicy
from portal.quotas.policy import POLICY_OPTIONS, current_policy, policy_set
from portal.web.console.access import platform_admins_only
from portal.web.console.history import audit_lines
from portal.web.console.policy_fields import policy_changes, policy_groups, read_policy
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text

MAX_TYPED = 60
MAX_LINES = 20
MAX_DIGITS = 10


@platform_admins_only
@require_http_methods(["GET", "HEAD", "POST"])
def policy(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Step `preview` shows what would change, step `save` changes it."""
    if request.method != "POST":
        return _page(request, _version())
    typed = {name: request.POST.get(name, "")[:MAX_TYPED] for name in POLICY_OPTIONS}
    version = request.POST.get("version", "")
    is_number = version.isascii() and version.isdecimal() and len(version) < MAX_DIGITS
    read_version = int(version) if is_number else _version()
    values, errors = read_policy(typed)
    if errors:
        return _page(request, read_version, typed=typed, errors=errors, status=400)
    now = current_policy()
    changes = policy_changes(now, values)
    if request.POST.get("step") != "save" or not changes:
        return _page(request, read_version, typed=typed, changes=changes, has_read=True)
    changed = {name: value for name, value in values.items() if value != getattr(now, name)}
    try:
        policy_set(actor=request.user.username, version=read_version, **changed)
    except Refused as refused:
        sentence = refusal_text(refused)
        if refused.code == ErrorCode.VERSION_STALE:
            stale: dict[str, Any] = {"is_stale": True, "changes": changes, "has_read": True}
            return _page(request, _version(), typed=typed, status=412, **stale)
        errors = {refused.field or "order": sentence}
        return _page(request, read_version, typed=typed, errors=errors, status=refused.status)
    messages.success(request, _("Saved. It counts from the next planning pass on"))
    return redirect("web:policy")


@platform_admins_only
@require_safe
def portal_settings(request: HttpRequest) -> HttpResponse:
    """What the portal is started with; its environment changes it, not a page."""
    rows = [replace(row, help=_(row.help)) for row in setting_rows(os.environ)]
    words = request.GET.get("q", "").strip().lower()[:MAX_TYPED]
    shown = [row for row in rows if words in f"{row.name} {row.help}".lower()]
    if request.GET.get("changed") == "1":
        shown = [row for row in shown if row.source != "default"]
    context = {"rows": shown, "q": words, "is_changed": request.GET.get("changed") == "1"}
    return render(request, "web/console/portal_settings.html", context)


def _version() -> int:
    row = PlannerPolicy.objects.filter(pk=1).only("version").first()
    return row.version if row else 1


def _page(
    request: HttpRequest,
    version: int,
    *,
    typed: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
    **shown: Any,
) -> HttpResponse:
    changes = shown.get("changes", [])
    query = urlencode([("policy", change.what_if) for change in changes])
    context = shown | {
        "groups": policy_groups(current_policy(), typed, errors),
        "version": version,
        "errors": errors or {},
        "history": audit_lines(audit_trail().filter(noun="policy")[:MAX_LINES]),
        "what_if": f"{reverse('web:what_ifs')}?{query}",
    }
    return render(request, "web/console/policy.html", context, status=status)
