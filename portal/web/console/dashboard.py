"""The console's first page: what needs attention, and nothing else."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.web.console.access import platform_admins_only
from portal.web.console.alerts import Alert, active_alerts
from portal.web.http import AuthenticatedHttpRequest


@platform_admins_only
def console(request: AuthenticatedHttpRequest) -> HttpResponse:
    needs = active_alerts(request.user)
    context = {"needs": needs, "headline": headline(needs)}
    return render(request, "web/console/attention.html", context)


def headline(needs: list[Alert]) -> str:
    if not needs:
        return _("Nothing needs you")
    return ngettext("%(n)s thing needs you", "%(n)s things need you", len(needs)) % {
        "n": len(needs)
    }


def admin_index(request: AuthenticatedHttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """The same list on the first page under /admin/ (UNFOLD's DASHBOARD_CALLBACK)."""
    user = request.user
    needs = active_alerts(user) if user.is_platform_admin else []
    return context | {"needs": needs, "headline": headline(needs)}
