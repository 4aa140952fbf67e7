"""The error of an invalid what-if: one sentence that says why, and the field that is wrong."""

from collections.abc import Iterable

from agents.contract.message import Message, constant

# A list shows this many names, then how many more there are.
MAX_NAMES = 20


class ChangeRefusedError(ValueError):
    """`field` names the invalid part of the change; "": all of it. A `str` is a constant
    sentence."""

    def __init__(self, message: Message | str, field: str = "") -> None:
        self.message = message if isinstance(message, Message) else constant(message)
        super().__init__(self.message.text)
        self.field = field

    @property
    def sentence(self) -> str:
        """The message in English."""
        return self.message.text


def require(is_valid: bool, message: Message, field: str) -> None:
    """Raises ChangeRefusedError unless `is_valid`."""
    if not is_valid:
        raise ChangeRefusedError(message, field)


def list_names(names: Iterable[object]) -> Message:
    """The names that exist, as a sentence without its full stop."""
    known = [str(name) for name in names]
    if not known:
        return Message("There is none")
    shown, more = ", ".join(known[:MAX_NAMES]), len(known) - MAX_NAMES
    if more > 0:
        return Message("There are %(names)s and %(more)s more", names=shown, more=more)
    if len(known) == 1:
        return Message("There is %(names)s", names=shown)
    return Message("There are %(names)s", names=shown)
