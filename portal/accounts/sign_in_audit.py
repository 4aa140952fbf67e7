"""Audit entries for what allauth does: sign-ins, passwords, second factors, connected accounts."""

from typing import Any

from allauth.account.signals import password_changed, user_logged_in, user_signed_up
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added, authenticator_removed, authenticator_reset
from allauth.socialaccount.signals import social_account_added
from django.contrib.auth.signals import user_logged_out, user_login_failed
from django.contrib.sessions.models import Session
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.profiles import user_audit
from portal.accounts.sessions import ACTIVITY_KEY, sessions_end_others, user_bell
from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record
from portal.live.bell import ring


@receiver(user_logged_in)
def record_sign_in(request: HttpRequest, user: User, **_: Any) -> None:
    request.session[ACTIVITY_KEY] = int(timezone.now().timestamp())
    records = request.session.get("account_authentication_methods") or []
    methods = [record.get("type") or record.get("method") for record in records]
    user_audit(user, AuditAction.SIGN_IN, after={"by": [name for name in methods if name]})


@receiver(user_login_failed)
def record_refused_sign_in(credentials: dict[str, Any], **_: Any) -> None:
    """Names an account only if there is one: people type passwords into the wrong field."""
    name = str(credentials.get("username", ""))[:150]
    known = User.objects.filter(username=name).values_list("username", flat=True).first()
    security_event_record(AuditAction.SIGN_IN_REFUSED, noun="user", noun_id=known or "")


@receiver(user_logged_out)
def end_streams(request: HttpRequest, user: User | None, **_: Any) -> None:
    """The pages of that browser get no more; those of others read again and go on."""
    if user is not None:
        # Django deletes it after this signal; the streams look for it when the bell rings.
        Session.objects.filter(session_key=request.session.session_key).delete()
        ring(user_bell(user.pk))


@receiver(user_signed_up)
def record_sign_up(user: User, sociallogin: Any = None, **_: Any) -> None:
    provider = sociallogin.account.provider if sociallogin else ""
    user_audit(user, AuditAction.USER_ADD, after={"by": provider, "projects": 0})


@receiver(social_account_added)
def record_connected_account(sociallogin: Any, **_: Any) -> None:
    user_audit(
        sociallogin.user, AuditAction.SIGN_IN_CONNECT, after={"by": sociallogin.account.provider}
    )


@receiver(password_changed)
def record_password_change(request: HttpRequest, user: User, **_: Any) -> None:
    """Also signs out every other browser, which may belong to someone with the old password."""
    user_audit(user, AuditAction.PASSWORD_CHANGE)
    sessions_end_others(user=user, except_key=request.session.session_key or "")


@receiver(authenticator_added)
def record_second_step(user: User, authenticator: Authenticator, **_: Any) -> None:
    user_audit(user, AuditAction.SECOND_STEP_ADD, after={"kind": authenticator.type})


@receiver(authenticator_removed)
def record_second_step_removal(user: User, authenticator: Authenticator, **_: Any) -> None:
    user_audit(user, AuditAction.SECOND_STEP_REMOVE, before={"kind": authenticator.type})


@receiver(authenticator_reset)
def record_new_recovery_codes(user: User, **_: Any) -> None:
    user_audit(user, AuditAction.RECOVERY_CODES_NEW)
