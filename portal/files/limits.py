"""How much a project may store, and how long files are kept."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction

from agents.contract.message import Message
from portal.accounts.models import Project
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.models import ProjectFiles

GIB = 1 << 30
MAX_STORED_GIB = 1 << 20
MAX_KEPT_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class StoredLimits:
    """What holds for one project: its own limits, or those of the settings."""

    stored_bytes: int
    stored_gib: int
    kept_days: int
    """0: for ever."""
    is_own: bool = False
    """A platform admin has set them for this project."""
    version: int = 1

    @property
    def max_bytes(self) -> int:
        return self.stored_gib * GIB

    @property
    def free_bytes(self) -> int:
        return max(0, self.max_bytes - self.stored_bytes)

    def removal(self, end: datetime | None) -> datetime | None:
        """When files of a job that ended then are removed."""
        return end + timedelta(days=self.kept_days) if end and self.kept_days else None


def stored_limits(project_id: int) -> StoredLimits:
    """One query."""
    return limits_of_row(ProjectFiles.objects.filter(pk=project_id).first())


def limits_of_row(row: ProjectFiles | None) -> StoredLimits:
    """`row`: of the project; None while nothing was stored or set."""
    gib, days = settings.PLATFORM.stored_gib, settings.PLATFORM.files_kept_days
    if row is None:
        return StoredLimits(0, gib, days)
    return StoredLimits(
        row.stored_bytes,
        gib if row.stored_gib is None else row.stored_gib,
        days if row.kept_days is None else row.kept_days,
        is_own=row.stored_gib is not None or row.kept_days is not None,
        version=row.version,
    )


def files_row_lock(project_id: int) -> ProjectFiles:
    """The row of the project, locked in the caller's transaction, and made if there is none."""
    rows = ProjectFiles.objects.select_for_update(no_key=True)
    row = rows.filter(pk=project_id).first()
    if row is None:
        try:
            with transaction.atomic():
                ProjectFiles.objects.create(pk=project_id)
        except IntegrityError:
            # Another transaction was first.
            pass
        row = rows.get(pk=project_id)
    return row


def bytes_reserve(project_id: int, size: int) -> None:
    """Count bytes that will arrive, in the caller's transaction. Raises Refused(stored_limit)."""
    row = files_row_lock(project_id)
    limits = limits_of_row(row)
    if size > limits.free_bytes:
        sentence = Message(
            "Project %(project)s may store %(limit)s GiB and has %(stored)s GiB: %(more)s GiB more "
            "do not fit. Ask a platform admin for more, or for a shorter time that files are kept",
            project=row.project.slug,
            limit=limits.stored_gib,
            stored=gib_text(limits.stored_bytes),
            more=gib_text(size),
        )
        raise Refused(ErrorCode.STORED_LIMIT, sentence)
    row.stored_bytes += size
    row.save(update_fields=["stored_bytes"])


def bytes_return(project_id: int, size: int) -> None:
    """The opposite."""
    row = files_row_lock(project_id)
    row.stored_bytes = max(0, row.stored_bytes - size)
    row.save(update_fields=["stored_bytes"])


def gib_text(size: int) -> str:
    """Two digits that matter, as in 0.012 or 3.5."""
    gib = size / GIB
    return f"{gib:.1f}" if gib >= 1 or not size else f"{gib:.2g}"


def stored_limits_set(
    *,
    project: Project,
    stored_gib: int | None,
    kept_days: int | None,
    actor: str,
    version: int | None = None,
) -> ProjectFiles:
    """Set both limits of a project; None: as the settings say. Nothing is removed at once.

    `version`: the one that the caller has read. Raises Refused(limit_invalid, version_stale).
    """
    for field, value, most in (
        ("stored_gib", stored_gib, MAX_STORED_GIB),
        ("kept_days", kept_days, MAX_KEPT_DAYS),
    ):
        if value is not None and not 0 <= value <= most:
            sentence = Message("Enter a whole number from 0 to %(most)s", most=most)
            raise Refused(ErrorCode.LIMIT_INVALID, sentence, field)
    with transaction.atomic():
        row = files_row_lock(project.pk)
        if version is not None and version != row.version:
            sentence = Message("These limits changed since you read them. Read them again")
            raise Refused(ErrorCode.VERSION_STALE, sentence)
        before = {"stored_gib": row.stored_gib, "kept_days": row.kept_days}
        row.stored_gib, row.kept_days = stored_gib, kept_days
        row.version += 1
        row.save(update_fields=["stored_gib", "kept_days", "version"])
        audit_record(
            actor=actor,
            action=AuditAction.PROJECT_STORAGE_SET,
            noun="project",
            noun_id=project.slug,
            project=project,
            before=before,
            after={"stored_gib": stored_gib, "kept_days": kept_days},
        )
    return row
