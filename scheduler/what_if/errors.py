"""The error of an invalid what-if: one sentence that says why, and the field that is wrong."""

from collections.abc import Iterable

# A list shows this many names, then how many more there are.
MAX_NAMES = 20


class ChangeRefusedError(ValueError):
    """`field` names the invalid part of the change; "": all of it."""

    def __init__(self, sentence: str, field: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.field = field


def require(is_valid: bool, sentence: str, field: str) -> None:
    """Raises ChangeRefusedError unless `is_valid`."""
    if not is_valid:
        raise ChangeRefusedError(sentence, field)


def list_names(names: Iterable[object]) -> str:
    """The names that exist, as a sentence without its full stop."""
    known = [str(name) for name in names]
    if not known:
        return "There is none"
    more = len(known) - MAX_NAMES
    rest = f" and {more} more" if more > 0 else ""
    return f"There {'is' if len(known) == 1 else 'are'} {', '.join(known[:MAX_NAMES])}{rest}"
