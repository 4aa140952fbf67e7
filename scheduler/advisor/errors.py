"""What the formulas refuse."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, TypeVar

from agents.contract.message import Message, constant

Words = TypeVar("Words", bound=StrEnum)


class AdvisorError(ValueError):
    """An input that is missing, not known or out of its range. The sentence names it and says what
    to give instead; `field` is the name of the argument, or "" where several do not go together."""

    def __init__(self, sentence: str, field: str = "", **values: Any) -> None:
        """The sentence is English with %(name)s placeholders for `values`, as gettext has it."""
        self.message = Message(sentence, **values) if values else constant(sentence)
        self.field = field
        super().__init__(self.message.text)


def one_of(name: str, value: object, words: Iterable[str]) -> AdvisorError:
    """The error of a word that is not in a list."""
    return AdvisorError(
        "%(name)s must be one of %(known)s, not %(value)s",
        name,
        name=name,
        known=", ".join(words),
        value=repr(str(value)[:80]),
    )


def checked(name: str, value: Any, minimum: float, maximum: float, whole: bool = True) -> float:
    """The number, if it lies between the bounds."""
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not minimum <= value <= maximum:
        sentence = (
            "%(name)s must be a whole number between %(least)s and %(most)s"
            if whole
            else "%(name)s must be a number between %(least)s and %(most)s"
        )
        raise AdvisorError(sentence, name, name=name, least=f"{minimum:,}", most=f"{maximum:,}")
    return float(value)


def member(name: str, value: object, words: type[Words]) -> Words:
    """The value as a member of the enumeration."""
    if not isinstance(value, str) or value not in list(words):
        raise one_of(name, value, words)
    return words(value)
