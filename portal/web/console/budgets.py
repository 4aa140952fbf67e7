"""Budgets: added after their effect was shown, and taken away; never changed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from portal.accounts.models import Project, User
from portal.errors import Refused
from portal.planning.quota_effect import QuotaEffect, budget_effect
from portal.quotas.budgets import MAX_UNIT_SECONDS, budget_add, budget_remove, budget_views
from portal.quotas.models import Budget
from portal.web.console.access import platform_admins_only, project_or_404, refusals_as_messages
from portal.web.console.amounts import GPU_HOUR, parse_amount
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text

FIELDS = ("user", "hours", "starts_at", "ends_at")


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """A budget in unit-seconds: what is used, and what running work may still use of it."""

    budget: Budget
    used: int
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


@dataclass(slots=True)
class BudgetForm:
    """What was typed, and what is wrong with it."""

    project: Project
    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    user: User | None = None
    unit_seconds: int = 0
    starts_at: datetime | None = None
    ends_at: datetime | None = None


def budget_usages(rows: Iterable[Budget], now: datetime) -> list[BudgetUsage]:
    """In the order given. Of those that are not open, only the budget is told. Two queries."""
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
        return _page(request, BudgetForm(project, dict.fromkeys(FIELDS, "")))
    form = _read(request, project)
    if form.errors or form.starts_at is None or form.ends_at is None:
        return _page(request, form, status=400)
    given: dict[str, Any] = {
        "project": project,
        "user": form.user,
        "limit_unit_seconds": form.unit_seconds,
        "starts_at": form.starts_at,
        "ends_at": form.ends_at,
    }
    if request.POST.get("step") != "save":
        return _page(request, form, budget_effect(**given))
    try:
        budget_add(**given, actor=request.user.username)
    except Refused as refused:
        form.errors["hours"] = refusal_text(refused)
        return _page(request, form, status=refused.status)
    messages.success(request, _("The budget counts from its first moment on"))
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
        messages.success(request, _("The budget is taken away; what was used stays counted"))
    return redirect("web:project", project.slug)


def _page(
    request: HttpRequest, form: BudgetForm, effect: QuotaEffect | None = None, status: int = 200
) -> HttpResponse:
    context = {"form": form, "effect": effect, "project": form.project}
    return render(request, "web/console/budget.html", context, status=status)


def _read(request: HttpRequest, project: Project) -> BudgetForm:
    form = BudgetForm(project, {name: request.POST.get(name, "").strip()[:150] for name in FIELDS})
    values, errors = form.values, form.errors
    try:
        form.unit_seconds = parse_amount(values["hours"], GPU_HOUR)
    except ValueError as wrong:
        errors["hours"] = str(wrong)
    if form.unit_seconds > MAX_UNIT_SECONDS:
        errors["hours"] = _("That is more than any cluster has")
    if values["user"]:
        form.user = User.objects.filter(username=values["user"], is_active=True).first()
        if form.user is None:
            errors["user"] = _("There is no such user. Write the name they sign in with")
    form.starts_at = _moment(values["starts_at"], "starts_at", errors)
    form.ends_at = _moment(values["ends_at"], "ends_at", errors)
    if form.starts_at and form.ends_at and form.ends_at <= form.starts_at:
        errors["ends_at"] = _("A budget ends after it starts")
    return form


def _moment(text: str, name: str, errors: dict[str, str]) -> datetime | None:
    try:
        found = parse_datetime(text)
        if found and timezone.is_naive(found):
            found = timezone.make_aware(found)
    except (ValueError, OverflowError):
        found = None
    if found is None:
        errors[name] = _("Write a date and a time, such as 2026-12-01T00:00")
    return found
