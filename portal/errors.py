"""A refusal that people see: a stable code, a sentence that says what to do, and the field."""

from dataclasses import dataclass

from scheduler.core.model.message import Message


@dataclass
class Refused(Exception):
    """Raised by services; pages, REST and the CLI show it in their own way.

    `status` is the HTTP status that fits: 400 for bad input, 403, 404, 409 for a conflict. `said`:
    the sentence as the planner has it, for pages in another language. `retry_seconds`: after how
    long the same may work; 0 where time alone changes nothing.
    """

    code: str
    sentence: str
    field: str = ""
    status: int = 400
    message: Message | None = None
    retry_seconds: int = 0

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}"
