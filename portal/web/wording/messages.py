"""What the planner and the services say, in the reader's language: from keys and templates with
their values, never from the English sentence."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, ngettext

from agents.contract.phrase import Phrase, read_phrase
from portal.audit.models import Event
from portal.errors import Refused
from portal.jobs.failures import failure_said
from portal.web.wording.node_messages import told_by_node
from scheduler.core.model.sentences import Said, read_said, tell
from scheduler.core.request import RequestRefused

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
    if phrase := read_phrase(event.data.get("phrase")):
        return told_sentence(phrase)
    planned = told(event.data.get("reason") or event.data)
    return planned or told_by_node(event.code, event.sentence)


def told_failure(failure: Mapping[str, Any]) -> str:
    """Why an attempt failed."""
    said = failure_said(failure)
    is_phrase = isinstance(said, Phrase)
    return told_sentence(said) if is_phrase else told_by_node(str(failure.get("code", "")), said)


def told_refusal(refused: Refused) -> str:
    return here(refused.said) if refused.said else told_sentence(refused.sentence)


def told_request(refused: RequestRefused) -> str:
    """All that is wrong with a request, in one line."""
    said = ((error.field, told_sentence(error.sentence)) for error in refused.errors)
    return "; ".join(f"{field}: {sentence}" if field else sentence for field, sentence in said)


def told_sentence(sentence: str) -> str:
    """A phrase, or a sentence that is always the same. What is neither stays as it is."""
    if isinstance(sentence, Phrase):
        values = {name: _value(name, value) for name, value in sentence.values.items()}
        return gettext(sentence.template) % values
    return gettext(sentence) if sentence else ""


def _value(name: str, value: Any) -> str:
    match value:
        case Said():
            return here(value)
        case str() if name == "status":
            return gettext(value)
        case Phrase():
            return told_sentence(value)
    return str(value)


def here(said: Said) -> str:
    """In the language of the page that is being made."""
    return tell(said, _translated)


def _translated(one: str, many: str, number: int) -> str:
    if many:
        return ngettext(one, many, number)
    return gettext(one) if one else ""
