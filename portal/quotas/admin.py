"""Admin pages of projects with their members, quotas, budgets and the planner's policy.

Projects are here, not in `portal.accounts`, because a project is created with its quota.
"""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin, TabularInline

from portal.accounts.models import Membership, Project, Role
from portal.accounts.services import (
    MEMBER_SHARE_BOUNDS,
    PROJECT_SHARE_BOUNDS,
    membership_remove,
    membership_set,
    membership_share_set,
    project_share_set,
    project_update,
)
from portal.admin_base import ReadOnlyAdmin, VersionedForm, show_refusals
from portal.quotas.models import Budget, PlannerPolicy, Quota
from portal.quotas.policy import POLICY_OPTIONS, policy_set
from portal.quotas.policy_help import POLICY_HELP
from portal.quotas.projects import project_create


class MembershipInline(TabularInline):
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)
    fields = ("user", "role", *MEMBER_SHARE_BOUNDS)


class ProjectForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    class Meta:
        model = Project
        fields = "__all__"  # noqa: DJ007 - get_fields and get_readonly_fields choose
        help_texts = {
            "approval_units": _(
                "Jobs with more units need an approval. One GPU is 56,000 units. Empty: no limit."
            ),
            "approval_seconds": _(
                "Jobs with a longer time limit need an approval. Empty: no limit."
            ),
            "approval_unit_seconds": _(
                "Jobs that may use more within their time limit need an approval. One GPU-hour is "
                "201,600,000 unit-seconds. Empty: no limit."
            ),
            "approval_high": _("Jobs of high priority need an approval."),
        }


@admin.register(Project)
class ProjectAdmin(ModelAdmin):
    form = ProjectForm
    list_display = ("slug", "name", "archived", "created_at")
    list_filter = ("archived",)
    search_fields = ("slug", "name")
    readonly_fields = ("created_at",)
    inlines = (MembershipInline,)

    def get_fields(self, request: HttpRequest, obj: Project | None = None) -> Any:
        """Weight, caps and thresholds are set once the project exists."""
        return super().get_fields(request, obj) if obj else ("slug", "name")

    def get_inlines(self, request: HttpRequest, obj: Project | None) -> Any:
        return self.inlines if obj else ()

    def get_readonly_fields(self, request: HttpRequest, obj: Project | None = None) -> Any:
        return (*self.readonly_fields, "slug") if obj else self.readonly_fields

    def has_delete_permission(self, request: HttpRequest, obj: Project | None = None) -> bool:
        """A project is archived, never deleted: its jobs are the record of its usage."""
        return False

    def save_model(self, request: HttpRequest, obj: Project, form: Any, change: bool) -> None:
        actor = request.user.get_username()
        if change:
            project_update(project=obj, name=obj.name, archived=obj.archived, actor=actor)
        else:
            project = project_create(slug=obj.slug, name=obj.name, actor=actor)
            obj.pk, obj._state.adding = project.pk, False
        if share := {n: getattr(obj, n) for n in PROJECT_SHARE_BOUNDS if n in form.changed_data}:
            project_share_set(project=obj, actor=actor, **share)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """Members are changed by services, so that each change has its audit entry."""
        actor = request.user.get_username()
        rows = formset.save(commit=False)
        changed = {id(each.instance): each.changed_data for each in formset.forms}
        for row in rows:
            with show_refusals(request):
                role = Role(row.role)
                membership_set(project=row.project, user=row.user, role=role, actor=actor)
                share = {n: getattr(row, n) for n in MEMBER_SHARE_BOUNDS if n in changed[id(row)]}
                if share:
                    membership_share_set(project=row.project, user=row.user, actor=actor, **share)
        for row in formset.deleted_objects:
            with show_refusals(request):
                membership_remove(project=row.project, user=row.user, actor=actor)


@admin.register(Quota)
class QuotaAdmin(ReadOnlyAdmin):
    """Read-only. The console changes quotas and first shows the effect on running work."""

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

    @admin.display(description=_("Edit"))
    def in_console(self, row: Quota) -> SafeString:
        of = {"user": row.user.username if row.user else "", "model": row.model}
        query = urlencode({name: value for name, value in of.items() if value})
        page = reverse("web:quota", args=[row.project.slug])
        return _link(f"{page}?{query}" if query else page)


@admin.register(Budget)
class BudgetAdmin(ReadOnlyAdmin):
    """Read-only. The project's page in the console adds and removes budgets."""

    list_display = ("project", "user", "limit_unit_seconds", "starts_at", "ends_at", "in_console")
    list_filter = ("project",)
    list_select_related = ("project", "user")
    readonly_fields = ("in_console",)

    @admin.display(description=_("Edit"))
    def in_console(self, row: Budget) -> SafeString:
        return _link(reverse("web:project", args=[row.project.slug]))


def _link(address: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', address, _("Open in the console"))


class PolicyForm(VersionedForm):
    class Meta:
        model = PlannerPolicy
        fields = POLICY_OPTIONS
        help_texts = POLICY_HELP


@admin.register(PlannerPolicy)
class PlannerPolicyAdmin(ModelAdmin):
    """The one row. Saving calls `policy_set`, which validates, audits and rings the planner."""

    form = PolicyForm
    list_display = ("__str__", "order", "backfill", "preemption", "moves", "merge", "warm")
    fields = (*POLICY_OPTIONS, "version", "read_version")
    readonly_fields = ("version",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return not PlannerPolicy.objects.exists()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: PlannerPolicy, form: Any, change: bool) -> None:
        options = {name: form.cleaned_data[name] for name in POLICY_OPTIONS}
        with show_refusals(request):
            read_version = form.cleaned_data.get("read_version") if change else None
            policy_set(actor=request.user.get_username(), version=read_version, **options)
        obj.pk, obj._state.adding = 1, False
