"""Quotas and budgets of all projects or of one, for platform admins."""

from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.contract.units import as_gpus
from portal.availability.promises import current_promises
from portal.quotas.figures import QuotaFigures, quota_figures
from portal.quotas.models import Budget, Quota
from portal.web.console.access import platform_admins_only
from portal.web.console.budgets import budget_usages
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_choice import follows_project_choice

MAX_ROWS = 200


@platform_admins_only
@follows_project_choice
def limits(request: AuthenticatedHttpRequest) -> HttpResponse:
    only_near = request.GET.get("near") == "1"
    slug = request.GET.get("project", "")
    of_project = Q(project__slug=slug) if slug else Q()
    rows = list(_project_quotas().filter(of_project))
    shown = [] if only_near else rows[:MAX_ROWS]
    now = timezone.now()
    budgets = Budget.objects.filter(of_project, ends_at__gt=now).select_related("project", "user")
    usages = budget_usages(budgets.order_by("project__slug", "ends_at")[:MAX_ROWS], now)
    used = sum(row.used_units for row in rows if not row.model)
    context = {
        "quotas": _with_figures(shown),
        "more_quotas": len(rows) - MAX_ROWS if len(rows) > MAX_ROWS else 0,
        "budgets": [usage for usage in usages if usage.is_nearly_spent or not only_near],
        "only_near": only_near,
        "is_filtered": only_near or bool(slug),
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
