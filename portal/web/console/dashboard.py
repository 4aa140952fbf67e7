"""The console's first page: what needs attention."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.web.console.access import platform_admins_only
from portal.web.console.alerts import Alert, active_alerts
from portal.web.console.failures import recent_failures
from portal.web.http import AuthenticatedHttpRequest


@platform_admins_only
def console(request: AuthenticatedHttpRequest) -> HttpResponse:
    alerts = active_alerts(request.user)
    context = {"alerts": alerts, "headline": headline(alerts), "failures": recent_failures()}
    return render(request, "web/console/dashboard.html", context)


def headline(alerts: list[Alert]) -> str:
    if not alerts:
        return _("Nothing needs attention")
    count = {"n": len(alerts)}
    return ngettext("%(n)s item needs attention", "%(n)s items need attention", len(alerts)) % count


def admin_index(request: AuthenticatedHttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Context of the first page under /admin/ (UNFOLD's DASHBOARD_CALLBACK): the same alerts."""
    user = request.user
    alerts = active_alerts(user) if user.is_platform_admin else []
    return context | {"alerts": alerts, "headline": headline(alerts)}
