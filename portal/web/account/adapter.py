"""allauth's adapter for local accounts: no sign-up, and errors that say what to do."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.forms import LoginForm
from django.contrib.auth.validators import ASCIIUsernameValidator
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record
from portal.web.account.rate_limits import ACCOUNT, seconds_left, wait_sentence
from portal.web.language import remember_language

USERNAME_VALIDATORS = [ASCIIUsernameValidator()]
# Messages that are not shown, because the page itself shows what happened.
SILENT_MESSAGES = {
    "account/messages/logged_in.txt",
    "account/messages/logged_out.txt",
    "mfa/messages/recovery_codes_generated.txt",
}


class SignInForm(LoginForm):
    """Names the field `username` in the page, as password managers expect."""

    def add_prefix(self, field_name: str) -> str:
        return "username" if field_name == "login" else field_name


class AccountAdapter(DefaultAccountAdapter):
    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": _("Incorrect user name or password"),
        "account_inactive": _("This account is disabled. Ask an admin"),
        "incorrect_password": _("Incorrect password"),
        "enter_current_password": _("Incorrect password"),
        "incorrect_code": _("Incorrect code. Codes change every 30 s: enter the latest one"),
        "rate_limited": _("Too many failed attempts. Try again in 5 min"),
        "too_many_login_attempts": _("Too many failed attempts. Try again in 5 min"),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Accounts are created by an admin or by the organisation's sign-in."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """Behind a Unix socket callers have no address, so all of them count as one."""
        if not request.META.get("REMOTE_ADDR"):
            request.META["REMOTE_ADDR"] = "127.0.0.1"
        return str(super().get_client_ip(request))

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError as refused:
            security_event_record(AuditAction.THROTTLED, noun="sign-in")
            key = self._get_login_attempts_cache_key(request, **credentials)
            wait = seconds_left(request, ACCOUNT, "login_failed", key)
            raise ValidationError(wait_sentence(wait), code="throttled") from refused

    def post_login(self, request: HttpRequest, user: User, **hooks: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **hooks)
        return remember_language(response, user.language)

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        *rest: Any,
        **more: Any,
    ) -> None:
        if message_template not in SILENT_MESSAGES:
            super().add_message(request, level, message_template, *rest, **more)
