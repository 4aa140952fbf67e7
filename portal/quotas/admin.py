"""The rows of quotas and budgets, which the console's pages change, and the planner's policy."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin

from portal.admin_base import ReadOnlyAdmin, SeenForm, refusals_shown
from portal.quotas.models import Budget, PlannerPolicy, Quota
from portal.quotas.policy import OPTIONS, policy_set


@admin.register(Quota)
class QuotaAdmin(ReadOnlyAdmin):
    """Looked at here; the console's page changes it, and first shows what that does to running
    work."""

    list_display = (
        "project",
        "user",
        "model",
        "limit_units",
        "borrow_units",
        "lend_units",
        "used_units",
        "guard_units",
        "version",
        "in_console",
    )
    list_filter = ("project",)
    search_fields = ("project__slug", "user__username")
    list_select_related = ("project", "user")
    readonly_fields = ("in_console",)

    @admin.display(description=_("To change it"))
    def in_console(self, row: Quota) -> SafeString:
        of = {"user": row.user.username if row.user else "", "model": row.model}
        query = urlencode({name: value for name, value in of.items() if value})
        page = reverse("web:quota", args=[row.project.slug])
        return _link(f"{page}?{query}" if query else page)


@admin.register(Budget)
class BudgetAdmin(ReadOnlyAdmin):
    """Looked at here; the project's page adds one, after showing what it leaves, and removes it."""

    list_display = ("project", "user", "limit_unit_seconds", "starts_at", "ends_at", "in_console")
    list_filter = ("project",)
    list_select_related = ("project", "user")
    readonly_fields = ("in_console",)

    @admin.display(description=_("To change it"))
    def in_console(self, row: Budget) -> SafeString:
        return _link(reverse("web:project", args=[row.project.slug]))


def _link(address: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', address, _("Open in the console"))


# What each option of the policy does, beside its field.
POLICY_HELP = {
    "order": _(
        "Who is next inside a priority band. fair: by expected work, and by what its owner used "
        "lately. fifo: first come. shortest, smallest: by the time limit, or by that x GPUs."
    ),
    "backfill": _(
        "What may start behind a blocked job. easy: what does not delay the first blocked ones. "
        "conservative: what delays nobody ahead of it. skip: whatever fits."
    ),
    "preemption": _(
        "Which preemptible work may be stopped. priority: that of lower bands, and what borrows "
        "quota that its owner wants back. order: also that whose turn is later."
    ),
    "merge": _("Idle slices may be deleted, so that something else fits."),
    "warm": _(
        "Slices that the requests seen lately will want again are made before anybody asks, and "
        "idle ones in their way deleted. Pinned GPUs stay as they are."
    ),
    "reservations": _("So many blocked jobs are promised a time (backfill: easy)."),
    "hysteresis": _("A running job is stopped for one whose turn is earlier by this factor."),
    "protection_seconds": _(
        "A job is not stopped in its first so many seconds; twice as many each time that it was."
    ),
    "patience_seconds": _(
        "A job that waits so many seconds counts as half as large, after twice that as a third."
    ),
    "bypass_limit": _("A job that others overtook so often goes first."),
    "moves": _("So many restartable jobs may move to make room for one. 0: none."),
    "half_life_seconds": _("What somebody used counts half after so many seconds."),
}


class PolicyForm(SeenForm):
    class Meta:
        model = PlannerPolicy
        fields = OPTIONS
        help_texts = POLICY_HELP


@admin.register(PlannerPolicy)
class PlannerPolicyAdmin(ModelAdmin):
    """One row; saving goes through policy_set, which checks, audits and rings."""

    form = PolicyForm
    list_display = ("__str__", "order", "backfill", "preemption", "moves", "merge", "warm")
    fields = (*OPTIONS, "version", "seen")
    readonly_fields = ("version",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return not PlannerPolicy.objects.exists()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: PlannerPolicy, form: Any, change: bool) -> None:
        options = {name: form.cleaned_data[name] for name in OPTIONS}
        with refusals_shown(request):
            seen = form.cleaned_data.get("seen") if change else None
            policy_set(actor=request.user.get_username(), version=seen, **options)
        obj.pk, obj._state.adding = 1, False
