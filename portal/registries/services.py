"""Sign projects in to registries, and out. Each service is one transaction with its audit entry,
without passwords."""

from django.db import transaction
from django.utils import timezone

from agents.contract.image_reference import ImageReferenceError
from agents.contract.message import Message
from agents.contract.registries import (
    MAX_PASSWORD_BYTES,
    MAX_REGISTRY_LENGTH,
    MAX_USER_LENGTH,
    read_registry,
)
from portal.accounts.models import Project, User
from portal.accounts.rights import require_project_admin
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.registries.models import REGISTRY_SEAL, Registry
from portal.registries.selectors import registries_of

MAX_REGISTRIES = 20
"""Of one project."""


def registry_set(
    *, actor: User, project: Project, address: str, user: str, password: str
) -> Registry:
    """Have the project's images in this registry pulled as `user`: a new credential, or another one
    for the same address. Pulls that have begun go on with what they were given.

    Raises Refused(forbidden, registry_invalid, too_many).
    """
    require_project_admin(actor, project)
    address = _address(address)
    _require_user(user)
    _require_password(password)
    with transaction.atomic():
        # Two changes of one project's registries come one after the other.
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        owned = registries_of(project)
        row = owned.filter(address=address).first()
        before: dict[str, object] | None = {"user": row.user} if row else None
        if row is None:
            if owned.count() >= MAX_REGISTRIES:
                sentence = Message(
                    "There are %(n)s registries already. Delete one first", n=MAX_REGISTRIES
                )
                raise Refused(ErrorCode.TOO_MANY_ITEMS, sentence, "", 409)
            row = Registry(project=project, address=address)
        row.user, row.sealed = user, REGISTRY_SEAL.seal(password)
        row.author, row.set_at = actor.username, timezone.now()
        row.save()
        audit_record(
            actor=actor.username,
            action=AuditAction.REGISTRY_SET,
            noun="registry",
            noun_id=row.address,
            project=row.project,
            before=before,
            after={"user": user},
        )
    return row


def registry_delete(*, actor: User, project: Project, address: str) -> None:
    """Delete the credential. Images that nodes have already stay there.

    Raises Refused(forbidden, not_found).
    """
    require_project_admin(actor, project)
    with transaction.atomic():
        rows = registries_of(project).select_for_update()
        row = rows.filter(address=_stored_address(address)).first()
        if row is None:
            sentence = "The project has no credential for this registry"
            raise Refused(ErrorCode.NOT_FOUND, sentence, "registry")
        audit_record(
            actor=actor.username,
            action=AuditAction.REGISTRY_DELETE,
            noun="registry",
            noun_id=row.address,
            project=row.project,
            before={"user": row.user},
        )
        row.delete()


def registry_used(*, row: Registry) -> None:
    """A node was given its credential now."""
    Registry.objects.filter(pk=row.pk).update(used_at=timezone.now())


def _address(text: str) -> str:
    try:
        address = read_registry(text)
    except ImageReferenceError as error:
        raise Refused(ErrorCode.REGISTRY_INVALID, error.message, "registry") from error
    if len(address) > MAX_REGISTRY_LENGTH:
        sentence = Message("A registry has at most %(n)s characters", n=MAX_REGISTRY_LENGTH)
        raise Refused(ErrorCode.REGISTRY_INVALID, sentence, "registry")
    return address


def _stored_address(text: str) -> str:
    """What no registry is called, no row has."""
    try:
        return read_registry(text)
    except ImageReferenceError:
        return text


def _require_user(user: str) -> None:
    """A colon would end it: name and password are sent as one text with a colon between them."""
    if not user.isprintable() or not user.strip() or ":" in user or len(user) > MAX_USER_LENGTH:
        sentence = Message(
            "A user name has 1 to %(n)s characters, and neither colons nor control characters",
            n=MAX_USER_LENGTH,
        )
        raise Refused(ErrorCode.REGISTRY_INVALID, sentence, "user")


def _require_password(password: str) -> None:
    """A key file of a cloud is a password of several lines."""
    try:
        size = len(password.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= MAX_PASSWORD_BYTES or "\0" in password:
        sentence = Message(
            "A password or token is text without NUL characters, of at most %(n)s KiB",
            n=MAX_PASSWORD_BYTES >> 10,
        )
        raise Refused(ErrorCode.REGISTRY_INVALID, sentence, "password")
