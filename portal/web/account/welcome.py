"""The page behind the link that an admin hands over: the owner of the account sets a password."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.views import PasswordResetConfirmView
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse_lazy
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.accounts.profiles import user_audit
from portal.accounts.sessions import sessions_end_others
from portal.audit.codes import AuditAction


class Welcome(PasswordResetConfirmView):
    """Django moves the token from the address into the session before it shows the form, so that no
    log of addresses and no referrer has it. The link is void once the password is set."""

    template_name = "account/welcome.html"
    success_url = reverse_lazy("web:sign_in")

    def get_user(self, uidb64: str) -> User | None:
        """Links of deactivated accounts are void."""
        user: User | None = super().get_user(uidb64)
        return user if user is not None and user.is_active else None

    def form_valid(self, form: Any) -> HttpResponse:
        with transaction.atomic():
            response = super().form_valid(form)
            user_audit(form.user, AuditAction.PASSWORD_CHANGE, after={"by": "link"})
            sessions_end_others(user=form.user, except_key="")
        messages.success(self.request, _("Your password is set. Sign in with it"))
        return response

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        return super().get_context_data(**context) | {"person": self.user}
