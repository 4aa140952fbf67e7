"""Set and delete secrets. Each service is one transaction with its audit entry, without values."""

import re

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents.contract.environment import is_reserved
from agents.contract.job_secrets import MAX_SECRET_BYTES, MIN_SECRET_CHARACTERS, SECRET_NAME
from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.accounts.rights import require_project_admin
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.job_secrets.models import JOB_SECRET_SEAL, JobSecret
from portal.job_secrets.selectors import secrets_of
from portal.live.bell import ring_plan

MAX_OWNED = 100
"""Secrets of one user, and of one project."""


def secret_set(*, actor: User, name: str, value: str, project: Project | None = None) -> JobSecret:
    """Set a secret of the project, or with None of the actor: a new one, or a new value. Jobs that
    run keep the value that they were given.

    Raises Refused(forbidden, name_invalid, secret_invalid, too_many).
    """
    if project is not None:
        require_project_admin(actor, project)
    _require_name(name)
    _require_value(value)
    with transaction.atomic():
        _lock_owner(actor, project)
        owned = secrets_of(project or actor)
        row = owned.filter(name=name).first()
        is_new = row is None
        if row is None:
            if owned.count() >= MAX_OWNED:
                sentence = Message("There are %(n)s secrets already. Delete one first", n=MAX_OWNED)
                raise Refused(ErrorCode.TOO_MANY_ITEMS, sentence, "", 409)
            row = JobSecret(name=name, project=project, user=None if project else actor)
        row.sealed = JOB_SECRET_SEAL.seal(value)
        row.author, row.set_at = actor.username, timezone.now()
        row.save()
        audit_record(
            actor=actor.username,
            action=AuditAction.SECRET_SET,
            noun="secret",
            noun_id=row.name,
            project=row.project,
            after={"name": name, "new": is_new},
        )
        # A job may have waited for it.
        ring_plan()
    return row


def secret_delete(*, actor: User, name: str, project: Project | None = None) -> None:
    """Delete it. Jobs that run keep it; jobs that wait for their start go on waiting, with a reason
    that names it, until it is set again.

    Raises Refused(forbidden, not_found).
    """
    if project is not None:
        require_project_admin(actor, project)
    with transaction.atomic():
        _lock_owner(actor, project)
        row = secrets_of(project or actor).filter(name=name).first()
        if row is None:
            raise Refused(ErrorCode.NOT_FOUND, "There is no secret with this name", "name")
        audit_record(
            actor=actor.username,
            action=AuditAction.SECRET_DELETE,
            noun="secret",
            noun_id=row.name,
            project=row.project,
            before={"name": name},
        )
        row.delete()
        ring_plan()


def secrets_used(*, rows: QuerySet[JobSecret]) -> None:
    """A node was given them now."""
    rows.update(used_at=timezone.now())


def _lock_owner(actor: User, project: Project | None) -> None:
    """Two changes of one owner's secrets come one after the other."""
    if project is None:
        User.objects.select_for_update(no_key=True).get(pk=actor.pk)
    else:
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)


def _require_name(name: str) -> None:
    if not re.fullmatch(SECRET_NAME, name):
        sentence = (
            "A name has 1 to 64 letters, digits and underscores, and does not begin with a digit"
        )
        raise Refused(ErrorCode.NAME_INVALID, sentence, "name")
    if is_reserved(name):
        reserved = Message("%(name)s is set by Tessera. Choose another name", name=name)
        raise Refused(ErrorCode.NAME_INVALID, reserved, "name")


def _require_value(value: str) -> None:
    if len(value.strip()) < MIN_SECRET_CHARACTERS:
        sentence = Message(
            "A secret has at least %(n)s characters: a shorter one could not be hidden in logs",
            n=MIN_SECRET_CHARACTERS,
        )
        raise Refused(ErrorCode.SECRET_INVALID, sentence, "value")
    if "\0" in value or len(value.encode(errors="replace")) > MAX_SECRET_BYTES:
        sentence = Message(
            "A secret is text without NUL characters, of at most %(n)s KiB",
            n=MAX_SECRET_BYTES >> 10,
        )
        raise Refused(ErrorCode.SECRET_INVALID, sentence, "value")
    if not _is_text(value):
        raise Refused(ErrorCode.SECRET_INVALID, "A secret is UTF-8 text", "value")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
