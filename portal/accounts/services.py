"""Change projects, their members, and API tokens. Callers check rights (`portal.accounts.rights`).

Every service is one transaction with its audit entry.
"""

from datetime import timedelta
from typing import Any

from django.db import transaction

from agents.contract.egress import EgressPolicy
from agents.contract.message import Message
from agents.contract.units import UNITS_PER_GPU
from portal.accounts.models import ApiToken, Membership, Project, Role, TokenScope, User
from portal.accounts.selectors import live_tokens
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.live.bell import ring_plan

MAX_TOKEN_TTL = timedelta(days=365)
MAX_TOKENS = 50
# Smallest and largest value of each setting of a project and of its members.
MEMBER_SHARE_BOUNDS = {"weight": (1, 10_000), "max_running": (0, 10**6), "max_pending": (0, 10**6)}
MAX_UNITS, MAX_SECONDS = UNITS_PER_GPU * 100_000, 366 * 86_400
APPROVAL_BOUNDS = {
    "approval_units": (0, MAX_UNITS),
    "approval_seconds": (0, MAX_SECONDS),
    "approval_unit_seconds": (0, MAX_UNITS * MAX_SECONDS),
}
BOOLEAN_BOUNDS = {"approval_high": (False, True)}
PROJECT_SHARE_BOUNDS = MEMBER_SHARE_BOUNDS | APPROVAL_BOUNDS | BOOLEAN_BOUNDS


def project_update(*, project: Project, name: str, archived: bool, actor: str) -> Project:
    """Rename a project, or archive it: an archived project takes no new jobs, and its history stays
    readable. Raises Refused(name_invalid)."""
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise Refused(ErrorCode.NAME_INVALID, "A name has 1 to 100 characters", "name")
    with transaction.atomic():
        row = Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        before = {"name": row.name, "archived": row.archived}
        row.name, row.archived = name, archived
        row.save(update_fields=["name", "archived"])
        _audit(actor, AuditAction.PROJECT_CHANGE, row, before, {"name": name, "archived": archived})
    return row


def project_egress_set(*, project: Project, egress: EgressPolicy, actor: str) -> Project:
    """What attempts that are placed from now on reach."""
    with transaction.atomic():
        row = Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        before, row.egress = row.egress, egress
        if before != egress:
            row.save(update_fields=["egress"])
            changed = ({"egress": str(before)}, {"egress": str(egress)})
            _audit(actor, AuditAction.PROJECT_EGRESS_SET, row, *changed)
            ring_plan()
    return row


def project_terminals_set(*, project: Project, is_barred: bool, actor: str) -> Project:
    """Whether nobody may open a terminal in its jobs. Those that are open end within seconds."""
    with transaction.atomic():
        row = Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        before, row.bars_terminals = row.bars_terminals, is_barred
        if before != is_barred:
            row.save(update_fields=["bars_terminals"])
            changed = ({"bars_terminals": before}, {"bars_terminals": is_barred})
            _audit(actor, AuditAction.PROJECT_TERMINALS_SET, row, *changed)
    return row


def membership_set(*, project: Project, user: User, role: Role, actor: str) -> Membership:
    """Add a user to a project or change their role. Raises Refused(last_admin)."""
    with transaction.atomic():
        rows = _members(project)
        row = next((row for row in rows if row.user_id == user.pk), None)
        before = {"user": user.username, "role": row.role if row else ""}
        if row and row.role == Role.ADMIN and role is not Role.ADMIN:
            _require_other_admin(rows, row)
        row = row or Membership(project=project, user=user)
        row.role = role
        row.save()
        after = {"user": user.username, "role": str(role)}
        _audit(actor, AuditAction.MEMBERSHIP_SET, project, before, after)
    return row


def membership_remove(*, project: Project, user: User, actor: str) -> None:
    """Remove a user from a project. Their jobs go on. Raises Refused(not_found, last_admin)."""
    with transaction.atomic():
        rows = _members(project)
        row = next((row for row in rows if row.user_id == user.pk), None)
        if row is None:
            raise _not_a_member(project, user)
        if row.role == Role.ADMIN:
            _require_other_admin(rows, row)
        before = {"user": user.username, "role": row.role}
        row.delete()
        _audit(actor, AuditAction.MEMBERSHIP_REMOVE, project, before, {})


def project_share_set(*, project: Project, actor: str, **share: int | None) -> Project:
    """Set a project's weight, job caps and approval thresholds; others keep their values.

    Raises Refused(share_invalid).
    """
    _require_share(share, PROJECT_SHARE_BOUNDS)
    with transaction.atomic():
        row = Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        before = {name: getattr(row, name) for name in share}
        for name, value in share.items():
            setattr(row, name, value)
        row.save(update_fields=list(share))
        _audit(actor, AuditAction.PROJECT_SHARE, row, before, dict(share))
        ring_plan()
    return row


def membership_share_set(*, project: Project, user: User, actor: str, **share: int | None) -> None:
    """Set a user's weight and job caps within a project. Raises Refused(not_found,
    share_invalid)."""
    _require_share(share, MEMBER_SHARE_BOUNDS)
    with transaction.atomic():
        row = next((row for row in _members(project) if row.user_id == user.pk), None)
        if row is None:
            raise _not_a_member(project, user)
        subject = {"user": user.username}
        before = {name: getattr(row, name) for name in share}
        for name, value in share.items():
            setattr(row, name, value)
        row.save(update_fields=list(share))
        _audit(actor, AuditAction.MEMBERSHIP_SHARE, project, subject | before, subject | share)
        ring_plan()


def _not_a_member(project: Project, user: User) -> Refused:
    sentence = Message("%(user)s is not in %(project)s", user=user.username, project=project.slug)
    return Refused(ErrorCode.NOT_FOUND, sentence)


def _require_share(share: dict[str, int | None], bounds: dict[str, tuple[int, int]]) -> None:
    for name, value in share.items():
        if name not in bounds:
            raise Refused(
                ErrorCode.SHARE_INVALID,
                Message("There is no setting %(name)s", name=repr(name)),
                name,
            )
        if name in BOOLEAN_BOUNDS:
            if not isinstance(value, bool):
                raise Refused(
                    ErrorCode.SHARE_INVALID,
                    Message("%(name)s must be true or false", name=name),
                    name,
                )
            continue
        least, most = bounds[name]
        if value is None and name in APPROVAL_BOUNDS:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            sentence = Message(
                "%(name)s must be a number from %(least)s to %(most)s",
                name=name,
                least=least,
                most=most,
            )
            raise Refused(ErrorCode.SHARE_INVALID, sentence, name)


def token_create(
    *, user: User, name: str, scope: TokenScope, ttl: timedelta, actor: str = ""
) -> tuple[ApiToken, str]:
    """Create a token; returns its row and its text, which is shown once and not stored.

    Raises Refused(ttl_invalid, scope_forbidden, too_many_tokens).
    """
    if not timedelta(0) < ttl <= MAX_TOKEN_TTL:
        sentence = Message(
            "A token is valid for at least a second and at most %(days)s days",
            days=MAX_TOKEN_TTL.days,
        )
        raise Refused(ErrorCode.TTL_INVALID, sentence, "days")
    with transaction.atomic():
        live = live_tokens().filter(user=user)
        if live.count() >= MAX_TOKENS:
            sentence = Message(
                "You have %(n)s tokens. Delete one that you no longer use", n=MAX_TOKENS
            )
            raise Refused(ErrorCode.TOO_MANY_TOKENS, sentence)
        token, text = ApiToken.objects.create(user=user, expiry=ttl, name=name, scope=scope)
        after = {"user": user.username, "name": name, "scope": str(scope), "days": ttl.days}
        _token_audit(actor or user.username, AuditAction.TOKEN_CREATE, token, after)
    return token, text


def token_revoke(*, token: ApiToken, actor: str = "") -> None:
    """Delete a token: the next request with it gets 401."""
    with transaction.atomic():
        before = {"user": token.user.username, "name": token.name, "scope": token.scope}
        _token_audit(actor or token.user.username, AuditAction.TOKEN_REVOKE, token, before)
        token.delete()


def _members(project: Project) -> list[Membership]:
    """All memberships of a project, whose row is locked so that concurrent changes serialise."""
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    return list(Membership.objects.filter(project=project).select_related("user"))


def _require_other_admin(rows: list[Membership], leaving: Membership) -> None:
    """One who may sign in: a deactivated admin runs nothing, and may leave."""
    admins = [row for row in rows if row.role == Role.ADMIN and row.user.is_active]
    if admins == [leaving]:
        sentence = "A project needs an admin. Make someone else an admin first"
        raise Refused(ErrorCode.LAST_ADMIN, sentence, "role")


def _audit(
    actor: str, action: AuditAction, project: Project, before: dict[str, Any], after: dict[str, Any]
) -> None:
    audit_record(
        actor=actor,
        action=action,
        noun="project",
        noun_id=project.slug,
        project=project,
        before=before,
        after=after,
    )


def _token_audit(actor: str, action: AuditAction, token: ApiToken, facts: dict[str, Any]) -> None:
    is_new = action is AuditAction.TOKEN_CREATE
    audit_record(
        actor=actor,
        action=action,
        noun="token",
        noun_id=token.token_key,
        before={} if is_new else facts,
        after=facts if is_new else {},
    )
