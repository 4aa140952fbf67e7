"""The console's view of quotas. Saving goes through quota_set, which locks, audits and rings."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin

from portal.console import SeenForm, refusals_shown
from portal.quotas.budgets import MAX_UNIT_SECONDS, budget_add, budget_remove
from portal.quotas.models import Budget, PlannerPolicy, Quota
from portal.quotas.policy import OPTIONS, policy_set
from portal.quotas.services import MAX_LIMIT_UNITS, MODEL, quota_set


class QuotaForm(SeenForm):
    """Refuses what quota_set would refuse, beside the field."""

    limit_units = forms.IntegerField(
        min_value=0, max_value=MAX_LIMIT_UNITS, help_text="One GPU is 56,000 units."
    )

    borrow_units = forms.IntegerField(
        min_value=0, max_value=MAX_LIMIT_UNITS, required=False, help_text="Of projects only."
    )
    lend_units = forms.IntegerField(
        min_value=0, max_value=MAX_LIMIT_UNITS, required=False, help_text="Of projects only."
    )

    class Meta:
        model = Quota
        fields = ("project", "user", "model", "limit_units", "borrow_units", "lend_units")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        project = values.get("project", getattr(self.instance, "project", None))
        user = values.get("user", self.instance.user)
        limit = values.get("limit_units")
        model = values.get("model", self.instance.model)
        if not MODEL.fullmatch(model):
            raise forms.ValidationError({"model": "Write a model of GPU, such as H200."})
        rows = Quota.objects.filter(project=project, model=model)
        if self.instance.pk is None and rows.filter(user=user).exists():
            raise forms.ValidationError("There is such a quota already. Change that one.")
        whole = rows.filter(user=None).first()
        if user and whole and limit is not None and limit > whole.limit_units:
            raise forms.ValidationError(
                {"limit_units": f"The project itself may hold {whole.limit_units} units."}
            )
        given = {"borrow_units", "lend_units"} & set(self.changed_data)
        if user and given:
            raise forms.ValidationError(
                {min(given): "Users borrow and lend with their project. Set it there."}
            )
        return values


@admin.register(Quota)
class QuotaAdmin(ModelAdmin):
    form = QuotaForm
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
    )
    list_filter = ("project",)
    search_fields = ("project__slug", "user__username")
    list_select_related = ("project", "user")
    readonly_fields = ("used_units", "guard_units", "version")
    fields = (*QuotaForm.Meta.fields, *readonly_fields, "seen")
    autocomplete_fields = ("project", "user")

    def get_readonly_fields(self, request: HttpRequest, obj: Quota | None = None) -> Any:
        keys = ("project", "user", "model")
        return (*self.readonly_fields, *keys) if obj else self.readonly_fields

    def has_delete_permission(self, request: HttpRequest, obj: Quota | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Quota, form: Any, change: bool) -> None:
        """The form's row is never saved itself: its counters may be old by now."""
        lending = {"borrow_units": obj.borrow_units, "lend_units": obj.lend_units}
        row = quota_set(
            project=obj.project,
            user=obj.user,
            model=obj.model,
            limit_units=obj.limit_units,
            version=form.cleaned_data.get("seen") if change else None,
            **({} if obj.user else lending),
            actor=request.user.get_username(),
        )
        obj.pk, obj.version = row.pk, row.version
        obj._state.adding = False


class BudgetForm(forms.ModelForm):
    limit_unit_seconds = forms.IntegerField(
        min_value=0,
        max_value=MAX_UNIT_SECONDS,
        help_text="One GPU-hour is 201,600,000 unit-seconds.",
    )

    class Meta:
        model = Budget
        fields = ("project", "user", "limit_unit_seconds", "starts_at", "ends_at")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        first, last = values.get("starts_at"), values.get("ends_at")
        if first and last and last <= first:
            raise forms.ValidationError({"ends_at": "A budget ends after it starts."})
        return values


@admin.register(Budget)
class BudgetAdmin(ModelAdmin):
    """Added and removed, never changed: what was promised stays readable in the audit lines."""

    form = BudgetForm
    list_display = ("project", "user", "limit_unit_seconds", "starts_at", "ends_at")
    list_filter = ("project",)
    list_select_related = ("project", "user")
    autocomplete_fields = ("project", "user")

    def has_change_permission(self, request: HttpRequest, obj: Budget | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Budget, form: Any, change: bool) -> None:
        given = {name: getattr(obj, name) for name in BudgetForm.Meta.fields}
        row = budget_add(**given, actor=request.user.get_username())
        obj.pk, obj._state.adding = row.pk, False

    def delete_model(self, request: HttpRequest, obj: Budget) -> None:
        budget_remove(budget=obj, actor=request.user.get_username())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Budget]) -> None:
        for budget in queryset.select_related("project", "user"):
            self.delete_model(request, budget)


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
