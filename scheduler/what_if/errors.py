"""A question that makes no sense: one sentence that says why, and the field that is wrong."""

from collections.abc import Iterable

# So many names are told; of more, how many there are besides.
MAX_NAMES = 20


class ChangeRefusedError(ValueError):
    """`field` names the part of the change; "" where it is the whole."""

    def __init__(self, sentence: str, field: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.field = field


def require(is_valid: bool, sentence: str, field: str) -> None:
    """Raises ChangeRefusedError unless it is right."""
    if not is_valid:
        raise ChangeRefusedError(sentence, field)


def list_names(names: Iterable[object]) -> str:
    """What one may write instead, as a sentence without its dot."""
    known = [str(name) for name in names]
    if not known:
        return "There is none"
    more = len(known) - MAX_NAMES
    rest = f" and {more} more" if more > 0 else ""
    return f"There {'is' if len(known) == 1 else 'are'} {', '.join(known[:MAX_NAMES])}{rest}"
