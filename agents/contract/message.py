"""One sentence for people, as a value: a key and named values give its text in any language.

The agent, the planner and the portal all make messages; REST, logs and the command line show their
English text, pages the reader's language. Stored and sent as `{"key", "values"}` beside the
English text, which is shown where the reader's version does not know the key. Pure.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

# (singular, plural, number) -> the text to fill in. `plural` is "" for a text without a plural.
Translate = Callable[[str, str, int], str]
PLACEHOLDER = re.compile(r"%\((\w+)\)s")
# What is filled in: no width or precision, as a key may come from a node.
FILLED = re.compile(r"%(?:\((\w+)\)s|%)")
# What a name looks like, so that one of another version is not taken for English.
NAME = re.compile(r"[a-z_]+(\.[a-z_]+)+")
SEPARATOR = ", "
# The key of text that no version translates.
VERBATIM = "words"


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    """The text of a message with %(name)s placeholders."""

    singular: str
    plural: str = ""
    """The text if the parameter `count_name` is not 1; "" if the number makes no difference."""
    count_name: str = ""

    @property
    def placeholders(self) -> frozenset[str]:
        """Names of the parameters that it needs."""
        return frozenset(PLACEHOLDER.findall(self.singular + self.plural))


# The texts of keys that are names. Every other key is its own English text. A package adds its
# table when it is imported (scheduler.core.model.message_templates).
TEMPLATES: dict[str, MessageTemplate] = {
    "nothing": MessageTemplate(""),
    VERBATIM: MessageTemplate("%(words)s"),
    "clause.then": MessageTemplate("%(first)s; %(then)s"),
    "clause.colon": MessageTemplate("%(first)s: %(then)s"),
    "clause.and": MessageTemplate("%(first)s and %(then)s"),
    "clause.or": MessageTemplate("%(first)s or %(then)s"),
    "clause.more": MessageTemplate("%(first)s and %(more)s more"),
}


@dataclass(frozen=True, init=False)
class Message:
    """A sentence or a part of one, for people: `Message("%(n)s jobs wait", n=3)`."""

    key: str
    """A name in TEMPLATES, or the English text itself with %(name)s placeholders, as in gettext.
    Keys are stored, so a name never changes."""
    values: dict[str, Any]
    """JSON-able parameters: words and formatted numbers ("2h", "1.50", a node's name), lists of
    these, and nested messages as `as_dict` writes them."""

    def __init__(self, key: str, /, **values: Any) -> None:
        """Raises KeyError for a missing value."""
        plain = {name: _plain(value) for name, value in values.items()}
        for name in template_of(key).placeholders:
            plain[name]
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "values", plain)

    @property
    def count(self) -> int:
        """What chooses between singular and plural: 1, or 2 for any other number."""
        number = self.values.get(template_of(self.key).count_name, 1)
        return 1 if number in (1, "1") else 2

    @cached_property
    def text(self) -> str:
        """In English."""
        return render(self, in_english)

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return self.key != "nothing"

    def as_dict(self) -> dict[str, Any]:
        return {"key": self.key, "values": self.values}


def verbatim(text: str) -> Message:
    """Text of a person or another program, shown as it is."""
    return Message(VERBATIM, words=text) if text else NO_MESSAGE


def constant(text: str) -> Message:
    """A sentence without parameters. One with a placeholder quotes a person's words."""
    is_own_key = text in TEMPLATES or PLACEHOLDER.search(text) is not None
    return verbatim(text) if not text or is_own_key else Message(text)


def join_clauses(first: Message, *others: Message) -> Message:
    """The clauses joined by semicolons."""
    for other in others:
        first = Message("clause.then", first=first, then=other)
    return first


def template_of(key: str) -> MessageTemplate:
    """Its entry in TEMPLATES, or the key itself as the text."""
    return TEMPLATES.get(key) or _own_template(key)


def render(message: Message, translate: Translate) -> str:
    """The text in the language of `translate`."""
    template = template_of(message.key)
    text = translate(template.singular, template.plural, message.count)
    if not message.values:
        return text
    shown = {name: _shown(value, translate) for name, value in message.values.items()}
    return FILLED.sub(lambda hole: shown[hole[1]] if hole[1] else "%", text)


def in_english(singular: str, plural: str, number: int) -> str:
    return plural if plural and number != 1 else singular


def read_message(stored: object, text: str = "") -> Message | None:
    """A message that `as_dict` wrote, of any version; `text` is the English beside it.

    A key that this version does not know gives `text` as it is, or None without it."""
    return _read(stored) or (verbatim(text) if text else None)


def _read(stored: object) -> Message | None:
    if not isinstance(stored, Mapping):
        return None
    values = stored.get("values")
    key = stored.get("key", stored.get("template"))
    if not isinstance(key, str) or not isinstance(values, Mapping):
        return None
    if key not in TEMPLATES and NAME.fullmatch(key):
        return None
    try:
        read = {str(name): _read_value(value) for name, value in values.items()}
        if "template" in stored and isinstance(read.get("status"), str):
            # Rows of earlier versions: this parameter was translated by its name.
            read["status"] = Message(read["status"])
        message = Message(key, **read)
        str(message)
    except (KeyError, TypeError, ValueError):
        return None
    return message


def _read_value(value: object) -> Any:
    match value:
        case Mapping():
            if (nested := _read(value)) is None:
                raise KeyError("a nested message of another version")
            return nested
        case list():
            return [_read_value(each) for each in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return value.as_dict()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | Mapping) else str(value)


def _shown(value: Any, translate: Translate) -> str:
    if isinstance(value, Mapping):
        return render(Message(value["key"], **value["values"]), translate)
    if isinstance(value, list):
        return translate(SEPARATOR, "", 1).join(_shown(each, translate) for each in value)
    return str(value)


@lru_cache(maxsize=4_096)
def _own_template(key: str) -> MessageTemplate:
    return MessageTemplate(key)


NO_MESSAGE = Message("nothing")
