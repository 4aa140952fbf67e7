"""How far a page has followed its job; the id of each event of the job's stream. Pure.

e12.a3.0-456.1-789      event 12; of attempt 3, rank 0 up to byte 456 and rank 1 up to byte 789
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

CURSOR = re.compile(r"e(\d{1,18})\.a(\d{1,9})((?:\.\d{1,5}-\d{1,15}){0,64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """An audit event, an attempt, and the log bytes sent so far."""

    event: int = 0
    attempt: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    """Bytes of the log that were sent, by rank."""

    def __str__(self) -> str:
        ranks = "".join(f".{rank}-{offset}" for rank, offset in sorted(self.offsets.items()))
        return f"e{self.event}.a{self.attempt}{ranks}"


def parse_cursor(text: str) -> Cursor | None:
    """A cursor that a browser sent back; None for any other text."""
    match = CURSOR.fullmatch(text)
    if match is None:
        return None
    pairs = (part.split("-") for part in match[3].split(".") if part)
    return Cursor(int(match[1]), int(match[2]), {int(rank): int(at) for rank, at in pairs})
