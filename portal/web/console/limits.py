"""Quotas and budgets of all projects, for platform admins."""

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.contract.units import as_gpus
from portal.availability.promises import current_promises
from portal.quotas.figures import QuotaFigures, quota_figures
from portal.quotas.models import Budget, Quota
from portal.web.console.access import platform_admins_only
from portal.web.console.budgets import budget_usages

MAX_ROWS = 200


@platform_admins_only
def limits(request: HttpRequest) -> HttpResponse:
    only_near = request.GET.get("near") == "1"
    rows = list(_project_quotas())
    shown = [] if only_near else rows[:MAX_ROWS]
    now = timezone.now()
    budgets = Budget.objects.filter(ends_at__gt=now).select_related("project", "user")
    usages = budget_usages(budgets.order_by("project__slug", "ends_at")[:MAX_ROWS], now)
    used = sum(row.used_units for row in rows if not row.model)
    context = {
        "quotas": _with_figures(shown),
        "more_quotas": len(rows) - MAX_ROWS if len(rows) > MAX_ROWS else 0,
        "budgets": [usage for usage in usages if usage.is_nearly_spent or not only_near],
        "only_near": only_near,
        "headline": _("%(gpus)s GPUs are held under quotas") % {"gpus": as_gpus(used)},
    }
    return render(request, "web/console/limits.html", context)


def _project_quotas() -> QuerySet[Quota]:
    rows = Quota.objects.filter(user__isnull=True).select_related("project", "user")
    return rows.order_by("project__slug", "model")


def _with_figures(rows: list[Quota]) -> list[tuple[Quota, QuotaFigures]]:
    """One or two queries, none without rows."""
    promises = current_promises({row.project.slug for row in rows}) if rows else []
    return [(row, quota_figures(row, promises)) for row in rows]
