"""An English sentence that remembers its template and values.

REST, logs and the command line use it as plain English text. A page translates the template and
fills in the values again in its reader's language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class Phrase(str):
    """`template` with `values` filled in by `%`. A value may itself be a phrase."""

    template: str
    values: dict[str, Any]

    def __new__(cls, template: str, /, **values: Any) -> Phrase:
        phrase = super().__new__(cls, template % values)
        phrase.template, phrase.values = template, values
        return phrase

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.template,), self.values

    def as_dict(self) -> dict[str, Any]:
        """As JSON data, for a database row or the wire."""
        values = {n: v.as_dict() if isinstance(v, Phrase) else v for n, v in self.values.items()}
        return {"template": self.template, "values": values}


def read_phrase(stored: object) -> Phrase | None:
    """The phrase that `as_dict` wrote; None for anything else."""
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
    """The sentences joined with semicolons; "" if there are none."""
    joined = ""
    for sentence in sentences:
        joined = Phrase("%(first)s; %(then)s", first=joined, then=sentence) if joined else sentence
    return joined
