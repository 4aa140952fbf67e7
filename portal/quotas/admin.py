"""The console's view of quotas. Saving goes through quota_set, which locks, audits and rings."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from portal.quotas.models import Quota
from portal.quotas.services import MAX_LIMIT_UNITS, quota_set


class QuotaForm(forms.ModelForm):
    """Refuses what quota_set would refuse, beside the field."""

    limit_units = forms.IntegerField(
        min_value=0, max_value=MAX_LIMIT_UNITS, help_text="One GPU is 56,000 units."
    )

    class Meta:
        model = Quota
        fields = ("project", "user", "limit_units")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        project = values.get("project", getattr(self.instance, "project", None))
        user = values.get("user", self.instance.user)
        limit = values.get("limit_units")
        rows = Quota.objects.filter(project=project)
        if self.instance.pk is None and rows.filter(user=user).exists():
            raise forms.ValidationError("There is such a quota already. Change that one.")
        whole = rows.filter(user=None).first()
        if user and whole and limit is not None and limit > whole.limit_units:
            raise forms.ValidationError(
                {"limit_units": f"The project itself may hold {whole.limit_units} units."}
            )
        return values


@admin.register(Quota)
class QuotaAdmin(ModelAdmin):
    form = QuotaForm
    list_display = ("project", "user", "limit_units", "used_units", "guard_units", "version")
    list_filter = ("project",)
    search_fields = ("project__slug", "user__username")
    list_select_related = ("project", "user")
    readonly_fields = ("used_units", "guard_units", "version")
    autocomplete_fields = ("project", "user")

    def get_readonly_fields(self, request: HttpRequest, obj: Quota | None = None) -> Any:
        return (*self.readonly_fields, "project", "user") if obj else self.readonly_fields

    def has_delete_permission(self, request: HttpRequest, obj: Quota | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Quota, form: Any, change: bool) -> None:
        """The form's row is never saved itself: its counters may be old by now."""
        row = quota_set(
            project=obj.project,
            user=obj.user,
            limit_units=obj.limit_units,
            actor=request.user.get_username(),
        )
        obj.pk, obj.version = row.pk, row.version
        obj._state.adding = False
