"""A sentence in English that knows what it was made of.

Whoever takes it as a text has the English one: REST, logs, the command line. A page makes the same
sentence in its reader's language from the template and the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class Phrase(str):
    """`template` with `values` filled in as `%` does it. A value may be a phrase itself."""

    template: str
    values: dict[str, Any]

    def __new__(cls, template: str, /, **values: Any) -> Phrase:
        made = super().__new__(cls, template % values)
        made.template, made.values = template, values
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.template,), self.values

    def as_dict(self) -> dict[str, Any]:
        """For a row, or the wire."""
        values = {n: v.as_dict() if isinstance(v, Phrase) else v for n, v in self.values.items()}
        return {"template": self.template, "values": values}


def read_phrase(stored: object) -> Phrase | None:
    """As `as_dict` wrote it; None for anything else."""
    if not isinstance(stored, Mapping):
        return None
    template, values = stored.get("template"), stored.get("values")
    if not isinstance(template, str) or not isinstance(values, Mapping):
        return None
    try:
        return Phrase(template, **{n: read_phrase(v) or v for n, v in values.items()})
    except (KeyError, TypeError, ValueError):
        return None


def joined_sentences(sentences: Iterable[str]) -> str:
    """With semicolons; "" of none."""
    found = ""
    for sentence in sentences:
        found = Phrase("%(first)s; %(then)s", first=found, then=sentence) if found else sentence
    return found
