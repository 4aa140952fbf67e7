"""Admin pages of users and API tokens. Projects are in `portal.quotas.admin`."""

from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from portal.accounts.models import ApiToken, User
from portal.accounts.profiles import user_audit, user_save
from portal.accounts.services import token_revoke
from portal.accounts.sessions import user_bell
from portal.admin_base import ReadOnlyAdmin
from portal.audit.codes import AuditAction
from portal.live.bell import ring

# Rights come from memberships and from being a platform admin, never from groups.
admin.site.unregister(Group)
# Editing these rows here would leave no audit entry. Users do it on their Account page.
for allauth_model in (
    Authenticator,
    EmailAddress,
    SocialAccount,
    SocialApp,
    SocialToken,
    UserSession,
):
    admin.site.unregister(allauth_model)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
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
        """A user is deactivated, never deleted: their jobs and audit entries stay."""
        return False

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        user_save(user=obj, changed=form.changed_data, actor=request.user.get_username())

    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        """Django saves the password; the audit entry is written in the same transaction. Browsers
        that signed in with the old password are signed out."""
        with transaction.atomic():
            before = self.get_object(request, unquote(id))
            answer = super().user_change_password(request, id, form_url)
            after = self.get_object(request, unquote(id))
            if before and after and before.password != after.password:
                user_audit(after, AuditAction.PASSWORD_SET, actor=request.user.get_username())
                ring(user_bell(after.pk))
        return answer


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens are created by their owners; an admin can only revoke them."""

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
        messages.success(request, "Revoked. The next request with these tokens is refused.")
