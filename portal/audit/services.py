"""Write down a privileged change. Called inside the transaction that makes the change."""

from typing import Any

from django.db import models
from django.utils import timezone

from portal.accounts.models import Project
from portal.audit.models import AuditEntry


def audit_record(
    *,
    actor: str,
    action: str,
    noun: str,
    noun_id: object,
    project: Project | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditEntry:
    """One audit line. `before` and `after` hold what people may read: never a token or a key."""
    return AuditEntry.objects.create(
        at=timezone.now(),
        actor=actor,
        action=action,
        noun=noun,
        noun_id=str(noun_id.pk if isinstance(noun_id, models.Model) else noun_id),
        project=project,
        before=before or {},
        after=after or {},
    )
