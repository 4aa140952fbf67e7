"""The exception for refused requests: a stable code, a sentence for people, and the field."""

from dataclasses import dataclass

from scheduler.core.model.message import Message


@dataclass
class Refused(Exception):
    """Raised by services; pages, REST and the CLI each show it in their own way."""

    code: str
    # What is wrong and what to do about it.
    sentence: str
    # The request field at fault; empty if there is none.
    field: str = ""
    # HTTP status: 400 for bad input, 403, 404, 409 for a conflict.
    status: int = 400
    message: Message | None = None
    retry_seconds: int = 0

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}"
