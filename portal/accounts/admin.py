"""The console's view of people, projects and tokens."""

from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin, TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from portal.accounts.models import ApiToken, Membership, Project, Role, User
from portal.accounts.profiles import person_audit, user_save
from portal.accounts.services import (
    SHARE_OF_MEMBER,
    SHARE_OF_PROJECT,
    membership_remove,
    membership_set,
    membership_share,
    project_change,
    project_create,
    project_share,
    token_revoke,
)
from portal.admin_base import ReadOnlyAdmin, refusals_shown

# Rights come from memberships and from being a platform admin; groups would be a second truth.
admin.site.unregister(Group)
# Editing these rows by hand would leave no audit line: people do it on their Account page.
for kept_by_allauth in (
    Authenticator,
    EmailAddress,
    SocialAccount,
    SocialApp,
    SocialToken,
    UserSession,
):
    admin.site.unregister(kept_by_allauth)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser")
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email", "language")}),
        ("Rights", {"fields": ("is_active", "is_staff", "is_superuser")}),
        ("Times", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """A user's jobs and audit lines stay; take `is_active` away instead."""
        return False

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        user_save(user=obj, changed=form.changed_data, actor=request.user.get_username())

    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        """Django saves it itself; a changed one has its audit line, and neither without the other.
        A browser that signed in with the old one is signed out."""
        with transaction.atomic():
            before = self.get_object(request, unquote(id))
            answer = super().user_change_password(request, id, form_url)
            after = self.get_object(request, unquote(id))
            if before and after and before.password != after.password:
                person_audit(after, "password_set", actor=request.user.get_username())
        return answer


class MembershipInline(TabularInline):
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)
    fields = ("user", "role", *SHARE_OF_MEMBER)


class ProjectForm(forms.ModelForm):
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
            project_change(project=obj, name=obj.name, archived=obj.archived, actor=by)
        else:
            made = project_create(slug=obj.slug, name=obj.name, actor=request.user.get_username())
            obj.pk, obj._state.adding = made.pk, False
        if share := {n: getattr(obj, n) for n in SHARE_OF_PROJECT if n in form.changed_data}:
            project_share(project=obj, actor=request.user.get_username(), **share)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """Members go through the services, so that each change has its audit line."""
        actor = request.user.get_username()
        rows = formset.save(commit=False)
        changed = {id(each.instance): each.changed_data for each in formset.forms}
        for row in rows:
            with refusals_shown(request):
                role = Role(row.role)
                membership_set(project=row.project, user=row.user, role=role, actor=actor)
                share = {n: getattr(row, n) for n in SHARE_OF_MEMBER if n in changed[id(row)]}
                if share:
                    membership_share(project=row.project, user=row.user, actor=actor, **share)
        for row in formset.deleted_objects:
            with refusals_shown(request):
                membership_remove(project=row.project, user=row.user, actor=actor)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens are made by their owners; an admin can only revoke them."""

    list_display = ("token_key", "user", "name", "scope", "created", "expiry", "last_used_at")
    list_filter = ("scope",)
    search_fields = ("user__username", "name")
    list_select_related = ("user",)
    list_display_links = None
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.action(description="Revoke")
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        for token in queryset.select_related("user"):
            token_revoke(token=token, actor=request.user.get_username())
        messages.success(request, "Revoked. The next call with them is turned away.")
