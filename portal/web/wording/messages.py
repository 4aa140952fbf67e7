"""What the planner and the services say, in the reader's language: from keys and templates with
their values, never from the English sentence."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, ngettext

from agents.contract.phrase import Phrase, read_phrase
from portal.audit.models import Event
from portal.errors import Refused
from portal.jobs.failures import failure_sentence
from portal.web.wording.node_messages import node_message_text
from scheduler.core.model.message import Message, read_message, render
from scheduler.core.request import RequestRefused

# Where a stored sentence has its key and values.
KEYS = {"sentence": "said", "unblocks": "unblocks_said", "basis": "basis_said"}


def stored_text(stored: Mapping[str, Any] | None, name: str = "sentence") -> str:
    """A sentence of a reason, an alternative or an estimate as its row has it. Rows of earlier
    versions have only the English one."""
    if not stored:
        return ""
    said = read_message(stored.get(KEYS[name]))
    return message_text(said) if said else str(stored.get(name, ""))


def event_text(event: Event) -> str:
    """What a line of history says: in the reader's language where it carries a reason."""
    if phrase := read_phrase(event.data.get("phrase")):
        return translated(phrase)
    planned = stored_text(event.data.get("reason") or event.data)
    return planned or node_message_text(event.code, event.sentence)


def failure_text(failure: Mapping[str, Any]) -> str:
    """Why an attempt failed."""
    said = failure_sentence(failure)
    is_phrase = isinstance(said, Phrase)
    return translated(said) if is_phrase else node_message_text(str(failure.get("code", "")), said)


def refusal_text(refused: Refused) -> str:
    return message_text(refused.message) if refused.message else translated(refused.sentence)


def request_errors_text(refused: RequestRefused) -> str:
    """All that is wrong with a request, in one line."""
    said = ((error.field, translated(error.sentence)) for error in refused.errors)
    return "; ".join(f"{field}: {sentence}" if field else sentence for field, sentence in said)


def translated(sentence: str) -> str:
    """A phrase, or a sentence that is always the same. What is neither stays as it is."""
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


def message_text(said: Message) -> str:
    """In the language of the page that is being made."""
    return render(said, _translated)


def _translated(one: str, many: str, number: int) -> str:
    if many:
        return ngettext(one, many, number)
    return gettext(one) if one else ""
