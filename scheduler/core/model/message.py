"""Messages as values: the key of a template and its parameters, rendered in any language later.

`Message.text` is English, from `scheduler.core.model.message_templates`. Pages translate the same
templates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scheduler.core.model.message_templates import TEMPLATES

# (singular, plural, number) -> the text to fill in. `plural` is "" for a text without a plural.
Translate = Callable[[str, str, int], str]
SEPARATOR = ", "


@dataclass(frozen=True)
class Message:
    """A sentence or a part of one, for people."""

    key: str
    """A key of TEMPLATES. Keys are stored, so they never change."""
    values: dict[str, Any] = field(default_factory=dict)
    """JSON-able parameters: words and formatted numbers ("2h", "1.50", a node's name), lists of
    these, and nested messages as `as_dict` writes them."""

    @cached_property
    def text(self) -> str:
        """In English."""
        return render(self, in_english)

    def __str__(self) -> str:
        return self.text

    def as_dict(self) -> dict[str, Any]:
        return {"key": self.key, "values": self.values}


def make_message(key: str, **values: Any) -> Message:
    """A message of a template. Raises KeyError for an unknown key."""
    TEMPLATES[key]
    return Message(key, {name: _plain(value) for name, value in values.items()})


def verbatim(text: str) -> Message:
    """Text of a person or another program, shown as it is."""
    return make_message("words", words=text) if text else NO_MESSAGE


def join_clauses(first: Message, *others: Message) -> Message:
    """The clauses joined by semicolons."""
    for other in others:
        first = make_message("clause.then", first=first, then=other)
    return first


def owner_label(project: str, user: str = "") -> Message | str:
    """The owner of a quota or a budget: a project, or a user in it."""
    return make_message("user.in_project", user=user, project=project) if user else project


def render(message: Message, translate: Translate) -> str:
    """The text in the language of `translate`."""
    template = TEMPLATES[message.key]
    number = _plural_number(message.values.get(template.count_name, 1))
    text = translate(template.singular, template.plural, number)
    return text % {name: _shown(value, translate) for name, value in message.values.items()}


def in_english(singular: str, plural: str, number: int) -> str:
    return plural if plural and number != 1 else singular


def read_message(stored: object) -> Message | None:
    """A message that `as_dict` wrote; None for anything else, and for a key of another version."""
    if not isinstance(stored, Mapping):
        return None
    key, values = stored.get("key"), stored.get("values")
    if not isinstance(key, str) or key not in TEMPLATES or not isinstance(values, Mapping):
        return None
    nested = [value for value in values.values() if isinstance(value, Mapping)]
    nested += [v for each in values.values() if isinstance(each, list) for v in each]
    if any(isinstance(value, Mapping) and read_message(value) is None for value in nested):
        return None
    is_complete = TEMPLATES[key].placeholders <= values.keys()
    return Message(key, dict(values)) if is_complete else None


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return value.as_dict()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int) else str(value)


def _shown(value: Any, translate: Translate) -> str:
    if isinstance(value, Mapping):
        return render(Message(value["key"], value["values"]), translate)
    if isinstance(value, list):
        return translate(SEPARATOR, "", 1).join(_shown(each, translate) for each in value)
    return str(value)


def _plural_number(value: Any) -> int:
    """What decides between singular and plural: 1 and "1" are singular."""
    return 1 if value in (1, "1") else 2


NO_MESSAGE = Message("nothing")
