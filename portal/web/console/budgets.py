"""Budgets: added in two steps, with their effect shown first, and removed; never changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from portal.accounts.models import Project
from portal.allocations.budgets import budget_views
from portal.errors import Refused
from portal.planning.quota_effect import QuotaEffect, budget_effect
from portal.quotas.budgets import MAX_UNIT_SECONDS, budget_add, budget_remove
from portal.quotas.models import Budget
from portal.web.console.access import platform_admins_only
from portal.web.console.amounts import GPU_HOUR
from portal.web.console.form_fields import ActiveUserField, AmountField, MomentField
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages
from portal.web.project_access import project_or_404
from portal.web.wording.messages import refusal_text


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """How far a budget is spent, in unit-seconds."""

    budget: Budget
    used: int
    # What running jobs may still use.
    reserved: int
    is_current: bool

    @property
    def left(self) -> int:
        return max(0, self.budget.limit_unit_seconds - self.used)

    @property
    def is_nearly_spent(self) -> bool:
        return (
            self.is_current
            and (self.used + self.reserved) * 10 >= self.budget.limit_unit_seconds * 9
        )


class BudgetForm(forms.Form):
    hours = AmountField(
        unit=GPU_HOUR,
        max_units=MAX_UNIT_SECONDS,
        too_large=gettext_lazy("Enter a smaller number of GPU-hours"),
    )
    user = ActiveUserField(required=False)
    starts_at = MomentField()
    ends_at = MomentField()

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        starts_at, ends_at = values.get("starts_at"), values.get("ends_at")
        if starts_at and ends_at and ends_at <= starts_at:
            self.add_error("ends_at", _("A budget must end after it starts"))
        return values


def budget_usages(rows: Iterable[Budget], now: datetime) -> list[BudgetUsage]:
    """In the order of `rows`. Only current budgets have their use counted. Two queries."""
    rows = list(rows)
    open_ = [row for row in rows if row.starts_at <= now < row.ends_at]
    views = dict(zip((row.pk for row in open_), budget_views(open_, now), strict=True))
    return [
        BudgetUsage(row, view.used_unit_seconds, view.reserved_unit_seconds, is_current=True)
        if (view := views.get(row.pk))
        else BudgetUsage(row, 0, 0, is_current=False)
        for row in rows
    ]


@platform_admins_only
def add(request: AuthenticatedHttpRequest, slug: str) -> HttpResponse:
    project = project_or_404(request.user, slug)
    if request.method != "POST":
        return _page(request, project, BudgetForm())
    form = BudgetForm(request.POST)
    if not form.is_valid():
        return _page(request, project, form, status=400)
    budget: dict[str, Any] = {
        "project": project,
        "user": form.cleaned_data["user"],
        "limit_unit_seconds": form.cleaned_data["hours"],
        "starts_at": form.cleaned_data["starts_at"],
        "ends_at": form.cleaned_data["ends_at"],
    }
    if request.POST.get("step") != "save":
        return _page(request, project, form, budget_effect(**budget))
    try:
        budget_add(**budget, actor=request.user.username)
    except Refused as refused:
        form.add_error("hours", refusal_text(refused))
        return _page(request, project, form, status=refused.status)
    messages.success(request, _("Budget saved. It counts all usage from its start"))
    return redirect("web:project", project.slug)


@platform_admins_only
@require_POST
def remove(request: AuthenticatedHttpRequest, slug: str, pk: int) -> HttpResponse:
    project = project_or_404(request.user, slug)
    row = Budget.objects.filter(project=project, pk=pk).select_related("project", "user").first()
    if row is None:
        raise Http404
    with refusals_as_messages(request):
        budget_remove(budget=row, actor=request.user.username)
        messages.success(request, _("Budget removed. Its usage stays on record"))
    return redirect("web:project", project.slug)


def _page(
    request: HttpRequest,
    project: Project,
    form: BudgetForm,
    effect: QuotaEffect | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {"form": form, "effect": effect, "project": project}
    return render(request, "web/console/budget.html", context, status=status)
