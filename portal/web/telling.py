"""What the planner says, in the reader's language: from the keys, not from the English sentence."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, ngettext

from portal.audit.models import Event
from portal.errors import Refused
from scheduler.core.said import Said, read_said, tell

# Where a stored sentence has its key and values.
KEYS = {"sentence": "said", "unblocks": "unblocks_said", "basis": "basis_said"}


def told(stored: Mapping[str, Any] | None, name: str = "sentence") -> str:
    """A sentence of a reason, an alternative or an estimate as its row has it. Rows of earlier
    versions have only the English one."""
    if not stored:
        return ""
    said = read_said(stored.get(KEYS[name]))
    return here(said) if said else str(stored.get(name, ""))


def told_event(event: Event) -> str:
    """What a line of history says: in the reader's language where it carries a reason."""
    return told(event.data.get("reason") or event.data) or event.sentence


def told_refusal(refused: Refused) -> str:
    return here(refused.said) if refused.said else refused.sentence


def here(said: Said) -> str:
    """In the language of the page that is being made."""
    return tell(said, _translated)


def _translated(one: str, many: str, number: int) -> str:
    if many:
        return ngettext(one, many, number)
    return gettext(one) if one else ""
