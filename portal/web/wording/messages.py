"""Stored and raised messages in the reader's language, made from their template and values."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, ngettext

from agents.contract.phrase import Phrase, read_phrase
from portal.audit.models import Event
from portal.errors import Refused
from portal.jobs.failures import failure_sentence
from portal.web.wording.node_messages import node_message_text
from scheduler.core.model.message import Message, read_message, render
from scheduler.core.request import InvalidRequest

# The stored key that holds the message of each stored English sentence.
MESSAGE_KEYS = {"sentence": "said", "unblocks": "unblocks_said", "basis": "basis_said"}


def stored_text(stored: Mapping[str, Any] | None, name: str = "sentence") -> str:
    """One sentence of a stored reason, alternative or estimate. Rows written by earlier versions
    have the English sentence only."""
    if not stored:
        return ""
    message = read_message(stored.get(MESSAGE_KEYS[name]))
    return message_text(message) if message else str(stored.get(name, ""))


def event_text(event: Event) -> str:
    """The sentence of a line of history."""
    if phrase := read_phrase(event.data.get("phrase")):
        return translated(phrase)
    reason = stored_text(event.data.get("reason") or event.data)
    return reason or node_message_text(event.code, event.sentence)


def failure_text(failure: Mapping[str, Any]) -> str:
    """Why an attempt failed."""
    sentence = failure_sentence(failure)
    if isinstance(sentence, Phrase):
        return translated(sentence)
    return node_message_text(str(failure.get("code", "")), sentence)


def refusal_text(refused: Refused) -> str:
    """Why a service refused."""
    return message_text(refused.message) if refused.message else translated(refused.sentence)


def request_errors_text(refused: InvalidRequest) -> str:
    """All errors of a request, in one line."""
    errors = ((error.field, translated(error.sentence)) for error in refused.errors)
    return "; ".join(f"{field}: {sentence}" if field else sentence for field, sentence in errors)


def translated(sentence: str) -> str:
    """A phrase, or a constant sentence. Any other text is returned as it is."""
    if isinstance(sentence, Phrase):
        values = {name: _value(name, value) for name, value in sentence.values.items()}
        return gettext(sentence.template) % values
    return gettext(sentence) if sentence else ""


def _value(name: str, value: Any) -> str:
    match value:
        case Message():
            return message_text(value)
        case str() if name == "status":
            return gettext(value)
        case Phrase():
            return translated(value)
    return str(value)


def message_text(message: Message) -> str:
    """A planner's message in the active language."""
    return render(message, _translated)


def _translated(one: str, many: str, number: int) -> str:
    if many:
        return ngettext(one, many, number)
    return gettext(one) if one else ""
