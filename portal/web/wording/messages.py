"""Stored and raised messages in the reader's language.

A message of another version, or text without a message, is shown in English as it was written.
"""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, ngettext

# For the texts of the planner's messages, which are added to the table on import.
import scheduler.core.model.message_templates  # noqa: F401
from agents.contract.message import VERBATIM, Message, read_message, render
from portal.audit.models import Event
from portal.errors import Refused
from portal.jobs.failures import failure_message
from portal.web.wording.node_messages import node_message_text
from scheduler.core.request import InvalidRequest

# The stored key that holds the message of each stored English sentence.
MESSAGE_KEYS = {"sentence": "said", "unblocks": "unblocks_said", "basis": "basis_said"}


def message_text(message: Message) -> str:
    """In the active language."""
    return render(message, _translated)


def stored_text(stored: Mapping[str, Any] | None, name: str = "sentence") -> str:
    """One sentence of a stored reason, alternative or estimate."""
    if not stored:
        return ""
    message = read_message(stored.get(MESSAGE_KEYS[name]), str(stored.get(name, "")))
    return message_text(message) if message else ""


def event_text(event: Event) -> str:
    """The sentence of a line of history."""
    # Earlier versions called some messages phrases.
    if message := read_message(event.data.get("phrase") or event.data.get("said")):
        return message_text(message)
    return stored_text(event.data.get("reason")) or node_message_text(event.code, event.sentence)


def failure_text(failure: Mapping[str, Any]) -> str:
    """Why an attempt failed."""
    message = failure_message(failure)
    if message.key == VERBATIM:
        return node_message_text(str(failure.get("code", "")), message.text)
    return message_text(message)


def refusal_text(refused: Refused) -> str:
    """Why a service refused."""
    return message_text(refused.message)


def request_errors_text(refused: InvalidRequest) -> str:
    """All errors of a request, in one line."""
    errors = ((error.field, message_text(error.message)) for error in refused.errors)
    return "; ".join(f"{field}: {sentence}" if field else sentence for field, sentence in errors)


def _translated(one: str, many: str, number: int) -> str:
    if many:
        return ngettext(one, many, number)
    return gettext(one) if one else ""
