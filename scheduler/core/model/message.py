"""Sentences as values: the key of a template and what stands in it, told in any language later.

The English text is made here from `scheduler.core.model.message_templates`; pages make theirs from the
same keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scheduler.core.model.message_templates import TEMPLATES

# Of (one, many, number): the text to fill in. `many` is "" where the number makes no difference.
Translate = Callable[[str, str, int], str]
SEPARATOR = ", "


@dataclass(frozen=True)
class Said:
    """`values` are JSON-able: words and numbers as everybody reads them ("2h", "1.50", a node's
    name), lists of such, and sentences in it as `as_dict` gives them."""

    key: str
    values: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        """In English."""
        return tell(self, in_english)

    def __str__(self) -> str:
        return self.text

    def as_dict(self) -> dict[str, Any]:
        return {"key": self.key, "values": self.values}


def say(key: str, **values: Any) -> Said:
    """The sentence of a template. Raises KeyError where there is no such template."""
    TEMPLATES[key]
    return Said(key, {name: _plain(value) for name, value in values.items()})


def words(text: str) -> Said:
    """What a person or another program wrote: it is told as it is."""
    return say("words", words=text) if text else NOTHING


def then(first: Said, *others: Said) -> Said:
    """One clause after the other, with a semicolon."""
    for other in others:
        first = say("clause.then", first=first, then=other)
    return first


def whose(project: str, user: str = "") -> Said | str:
    """The owner of a quota or a budget: a project, or a user in it."""
    return say("user.in_project", user=user, project=project) if user else project


def tell(said: Said, translate: Translate) -> str:
    """The sentence in the language of `translate`."""
    template = TEMPLATES[said.key]
    text = translate(template.one, template.many, _number(said.values.get(template.count, 1)))
    return text % {name: _shown(value, translate) for name, value in said.values.items()}


def in_english(one: str, many: str, number: int) -> str:
    return many if many and number != 1 else one


def read_said(stored: object) -> Said | None:
    """As `as_dict` wrote it; None for anything else, and for a key of another version."""
    if not isinstance(stored, Mapping):
        return None
    key, values = stored.get("key"), stored.get("values")
    if not isinstance(key, str) or key not in TEMPLATES or not isinstance(values, Mapping):
        return None
    nested = [value for value in values.values() if isinstance(value, Mapping)]
    nested += [v for each in values.values() if isinstance(each, list) for v in each]
    if any(isinstance(value, Mapping) and read_said(value) is None for value in nested):
        return None
    is_whole = TEMPLATES[key].holes <= values.keys()
    return Said(key, dict(values)) if is_whole else None


def _plain(value: Any) -> Any:
    if isinstance(value, Said):
        return value.as_dict()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int) else str(value)


def _shown(value: Any, translate: Translate) -> str:
    if isinstance(value, Mapping):
        return tell(Said(value["key"], value["values"]), translate)
    if isinstance(value, list):
        return translate(SEPARATOR, "", 1).join(_shown(each, translate) for each in value)
    return str(value)


def _number(value: Any) -> int:
    """What decides between one and many: 1, or "1", is one."""
    return 1 if value in (1, "1") else 2


NOTHING = Said("nothing")
