"""How far a page has followed its job; the id of each event of the job's stream. Pure.

e12.a3.0-456.1-789      event 12; of attempt 3, rank 0 up to byte 456 and rank 1 up to byte 789
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from portal.job_logs.position import LogPosition, parse_position

CURSOR = re.compile(r"e(\d{1,18})\.(.*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """An audit event, an attempt, and the log bytes sent so far."""

    event: int = 0
    attempt: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    """Bytes of the log that were sent, by rank."""

    def __str__(self) -> str:
        return f"e{self.event}.{LogPosition(self.attempt, self.offsets)}"


def parse_cursor(text: str) -> Cursor | None:
    """A cursor that a browser sent back; None for any other text."""
    match = CURSOR.fullmatch(text)
    position = parse_position(match[2]) if match else None
    if match is None or position is None:
        return None
    return Cursor(int(match[1]), position.attempt, position.offsets)
