"""Accounts as platform admins keep them: add, let in by a link, deactivate, make an admin.

What a person changes about their own account is in `profiles.py`. Every service is one transaction
with its audit entry.
"""

from typing import Any

from allauth.usersessions.models import UserSession
from django.contrib.auth.tokens import default_token_generator
from django.contrib.auth.validators import ASCIIUsernameValidator
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from agents.contract.message import Message
from portal.accounts.models import ApiToken, User
from portal.accounts.profiles import user_audit
from portal.accounts.selectors import platform_admins
from portal.accounts.sessions import user_bell
from portal.audit.codes import AuditAction
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.live.bell import ring


def user_add(*, username: str, email: str = "", full_name: str = "", actor: str) -> User:
    """An account in no project, without a password: its owner sets one by a link, or signs in by
    the organisation. Raises Refused(name_invalid, name_taken, email_invalid)."""
    user = User(username=username, email=email, first_name=full_name)
    user.set_unusable_password()
    try:
        ASCIIUsernameValidator()(username)
        User._meta.get_field("username").clean(username, user)
    except ValidationError as error:
        sentence = "A user name has 1 to 150 letters, digits and . _ - + @"
        raise Refused(ErrorCode.NAME_INVALID, sentence, "username") from error
    try:
        User._meta.get_field("email").clean(email, user)
        User._meta.get_field("first_name").clean(full_name, user)
        if not full_name.isprintable():
            raise ValidationError("it would be shown as something else")
    except ValidationError as error:
        sentence = "Enter an address such as ada@example.org, and a name of at most 150 characters"
        raise Refused(ErrorCode.EMAIL_INVALID, sentence, "email") from error
    with transaction.atomic():
        taken = Message("There is an account %(name)s already", name=repr(username))
        if User.objects.filter(username__iexact=username).exists():
            raise Refused(ErrorCode.NAME_TAKEN, taken, "username")
        try:
            with transaction.atomic():
                user.save(force_insert=True)
        except IntegrityError as error:
            # Somebody added it at the same moment.
            raise Refused(ErrorCode.NAME_TAKEN, taken, "username") from error
        user_audit(user, AuditAction.USER_ADD, actor=actor, after={"by": "admin", "projects": 0})
    return user


def sign_in_link_create(*, user: User, actor: str) -> tuple[str, str]:
    """What the link for a new password has in its address: the account, and a token. It works until
    the password is set, the owner signs in, or PASSWORD_RESET_TIMEOUT is over.

    Raises Refused(user_inactive).
    """
    with transaction.atomic():
        row = _locked(user)
        if not row.is_active:
            sentence = Message(
                "%(user)s is deactivated. Activate the account first", user=row.username
            )
            raise Refused(ErrorCode.USER_INACTIVE, sentence)
        user_audit(row, AuditAction.SIGN_IN_LINK_CREATE, actor=actor)
    return urlsafe_base64_encode(force_bytes(row.pk)), default_token_generator.make_token(row)


def user_deactivate(*, user: User, actor: str) -> None:
    """End every way in: passwords and second steps count no more, browsers are signed out,
    tokens for REST and for apps are deleted. Jobs go on; memberships and history stay.

    Raises Refused(forbidden, last_admin).
    """
    with transaction.atomic():
        row = _locked_beside_another_admin(user, actor)
        browsers = UserSession.objects.filter(user=row)
        Session.objects.filter(session_key__in=browsers.values("session_key")).delete()
        ended: dict[str, Any] = {"sessions": browsers.count()}
        browsers.delete()
        tokens = ApiToken.objects.filter(user=row)
        ended["tokens"] = tokens.count() + row.app_tokens.count()
        tokens.delete()
        row.app_tokens.all().delete()
        row.is_active = False
        row.save(update_fields=["is_active"])
        _audit(row, actor, {"active": True}, {"active": False} | ended)
        ring(user_bell(row.pk))


def user_activate(*, user: User, actor: str) -> None:
    """Let a deactivated person sign in again, as before. Tokens do not come back."""
    with transaction.atomic():
        row = _locked(user)
        row.is_active = True
        row.save(update_fields=["is_active"])
        _audit(row, actor, {"active": False}, {"active": True})


def platform_admin_set(*, user: User, is_platform_admin: bool, actor: str) -> None:
    """Make somebody a platform admin, or end that. Raises Refused(forbidden, last_admin)."""
    with transaction.atomic():
        row = _locked(user) if is_platform_admin else _locked_beside_another_admin(user, actor)
        before = {"superuser": row.is_superuser, "staff": row.is_staff}
        row.is_superuser = row.is_staff = is_platform_admin
        row.save(update_fields=["is_superuser", "is_staff"])
        _audit(row, actor, before, {"superuser": row.is_superuser, "staff": row.is_staff})
        ring(user_bell(row.pk))


def _locked(user: User) -> User:
    return User.objects.select_for_update(no_key=True).get(pk=user.pk)


def _locked_beside_another_admin(user: User, actor: str) -> User:
    """The account, locked with all platform admins in one order, so that two admins who end each
    other wait instead of deadlocking. Nobody locks themselves out, nor everybody."""
    if user.username == actor:
        sentence = "This is your own account. Ask another platform admin"
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    admins = Q(pk__in=platform_admins().order_by().values("pk"))
    rows = list(
        User.objects.filter(admins | Q(pk=user.pk)).order_by("pk").select_for_update(no_key=True)
    )
    row = next(each for each in rows if each.pk == user.pk)
    others = [each for each in rows if each.is_platform_admin and each.pk != user.pk]
    if row.is_platform_admin and not others:
        sentence = "The portal needs a platform admin. Make somebody else one first"
        raise Refused(ErrorCode.LAST_ADMIN, sentence)
    return row


def _audit(user: User, actor: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    user_audit(user, AuditAction.USER_CHANGE, actor=actor, before=before, after=after)
