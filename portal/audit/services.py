"""Record a privileged change, inside the transaction that makes it."""

from typing import Any

from django.db.models import Model
from django.utils import timezone

from portal.audit.codes import AuditAction
from portal.audit.models import AuditEntry
from portal.client_address import client_address
from portal.request_id import audited_request_id


def audit_record(
    *,
    actor: str,
    action: AuditAction,
    noun: str,
    noun_id: object,
    project: Model | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditEntry:
    """Write one audit entry. `before` and `after` must not hold tokens or keys: people read them.

    `noun_id`: a row (its primary key is written), or a name. The caller's address and the id of the
    request are added.
    """
    return AuditEntry.objects.create(
        at=timezone.now(),
        actor=actor,
        action=action,
        noun=noun,
        noun_id=str(noun_id.pk if isinstance(noun_id, Model) else noun_id),
        project_id=project.pk if project else None,
        before=before or {},
        after=after or {},
        address=client_address(),
        request_id=audited_request_id(),
    )
