"""Change a user's account, by its owner or by an admin, with audit entries."""

from collections.abc import Iterable
from typing import Any

from allauth.mfa.models import Authenticator
from django.db import transaction

from portal.accounts.models import User
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record


def user_language_set(*, user: User, language: str) -> None:
    """Set the language that pages have in a new browser."""
    user.language = language
    user.save(update_fields=["language"])


def user_time_zone_set(*, user: User, time_zone: str) -> None:
    """Set the zone in which the user reads times; empty: as the browser says."""
    user.time_zone = time_zone
    user.save(update_fields=["time_zone"])


def user_save(*, user: User, changed: Iterable[str], actor: str) -> None:
    """Save an account as a platform admin edited it. `changed`: names of the form's fields."""
    with transaction.atomic():
        action = AuditAction.USER_ADD if user._state.adding else AuditAction.USER_CHANGE
        user.save()
        rights = {"superuser": user.is_superuser, "staff": user.is_staff, "active": user.is_active}
        named = [name for name in changed if "password" not in name]
        user_audit(user, action, actor=actor, after=rights | {"changed": named})


def second_steps_remove(*, user: User, actor: str) -> int:
    """Remove the authenticator app, passkeys and recovery codes of a user who lost them.

    Returns how many there were.
    """
    with transaction.atomic():
        count, _ = Authenticator.objects.filter(user=user).delete()
        user_audit(
            user, AuditAction.SECOND_STEPS_REMOVE, actor=actor, before={"second_steps": count}
        )
    return int(count)


def user_audit(
    user: User,
    action: AuditAction,
    *,
    actor: str = "",
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Write an audit entry about an account. The actor is its owner by default."""
    audit_record(
        actor=actor or user.username,
        action=action,
        noun="user",
        noun_id=user.username,
        before=before,
        after=after,
    )
