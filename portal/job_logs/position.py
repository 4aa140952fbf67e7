"""How far a merged log has been read, as a text that a reader sends back. Pure.

a3.0-456.1-789      of attempt 3, rank 0 up to byte 456 and rank 1 up to byte 789
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

POSITION = re.compile(r"a(\d{1,9})((?:\.\d{1,5}-\d{1,15}){0,64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class LogPosition:
    """An attempt, and how much of its logs was read."""

    attempt: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    """Bytes of the log, by rank."""

    def __str__(self) -> str:
        ranks = "".join(f".{rank}-{offset}" for rank, offset in sorted(self.offsets.items()))
        return f"a{self.attempt}{ranks}"


def parse_position(text: str) -> LogPosition | None:
    """None for any other text."""
    match = POSITION.fullmatch(text)
    if match is None:
        return None
    pairs = (part.split("-") for part in match[2].split(".") if part)
    return LogPosition(int(match[1]), {int(rank): int(at) for rank, at in pairs})
