"""The exception for refused requests: a stable code, a message for people, and the field."""

from agents.contract.message import Message, constant
from portal.error_codes import ERROR_KINDS, ErrorCode


class Refused(Exception):
    """Raised by services; pages, REST and the CLI each show it in their own way."""

    def __init__(
        self,
        code: ErrorCode,
        message: Message | str,
        field: str = "",
        status: int = 0,
        retry_seconds: int = 0,
    ) -> None:
        """`message`: what is wrong and what to do about it; a `str` is a constant sentence.
        `field`: the request field at fault, or "". `status`: the HTTP status, if it is not that of
        the code."""
        self.code = code
        self.message = message if isinstance(message, Message) else constant(message)
        self.field = field
        self.status = status or ERROR_KINDS[code].status
        self.retry_seconds = retry_seconds

    @property
    def sentence(self) -> str:
        """The message in English."""
        return self.message.text

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}"
