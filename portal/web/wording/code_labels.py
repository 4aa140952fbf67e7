"""Words for the codes of the history and of the audit trail, in the reader's language."""

from django.utils.translation import gettext

from portal.audit.codes import AUDIT_LABELS, EVENT_LABELS, AuditAction, EventCode


def audit_label(action: str) -> str:
    """An action of another version is shown as it is."""
    return gettext(AuditAction(action).label) if action in AUDIT_LABELS else action


def event_label(code: str) -> str:
    """A code of another version, of a reason or of an agent is shown as it is."""
    return gettext(EventCode(code).label) if code in EVENT_LABELS else code
