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
from portal.quotas.projects import project_create


class MembershipInline(TabularInline):
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)
    fields = ("user", "role", *MEMBER_SHARE_BOUNDS)


class ProjectForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    class Meta:
        model = Project
        fields = "__all__"  # noqa: DJ007 - the console's own rules leave out the rest
        help_texts = {
            "approval_units": _(
                "A job that holds more waits for an admin. One GPU is 56,000 units; empty: none."
            ),
            "approval_seconds": _("A job that may run longer waits for an admin; empty: none."),
            "approval_unit_seconds": _(
                "A job that may use more by its time limit waits for an admin. One GPU-hour is "
                "201,600,000 unit-seconds; empty: none."
            ),
            "approval_high": _("A job of priority high waits for an admin."),
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
        """Its share, caps and thresholds are set once it is there."""
        return super().get_fields(request, obj) if obj else ("slug", "name")

    def get_inlines(self, request: HttpRequest, obj: Project | None) -> Any:
        return self.inlines if obj else ()

    def get_readonly_fields(self, request: HttpRequest, obj: Project | None = None) -> Any:
        return (*self.readonly_fields, "slug") if obj else self.readonly_fields

    def has_delete_permission(self, request: HttpRequest, obj: Project | None = None) -> bool:
        """Its jobs are the account of what was used; archive it instead."""
        return False

    def save_model(self, request: HttpRequest, obj: Project, form: Any, change: bool) -> None:
        if change:
            by = request.user.get_username()
            project_update(project=obj, name=obj.name, archived=obj.archived, actor=by)
        else:
            made = project_create(slug=obj.slug, name=obj.name, actor=request.user.get_username())
            obj.pk, obj._state.adding = made.pk, False
        if share := {n: getattr(obj, n) for n in PROJECT_SHARE_BOUNDS if n in form.changed_data}:
            project_share_set(project=obj, actor=request.user.get_username(), **share)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """Members go through the services, so that each change has its audit line."""
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


class PolicyForm(VersionedForm):
    class Meta:
        model = PlannerPolicy
        fields = POLICY_OPTIONS
        help_texts = POLICY_HELP


@admin.register(PlannerPolicy)
class PlannerPolicyAdmin(ModelAdmin):
    """One row; saving goes through policy_set, which checks, audits and rings."""

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
