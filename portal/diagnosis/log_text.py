"""The end of a log as lines of harmless text, in bounded time whatever the bytes are. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Longer lines are cut before anything looks at them.
MAX_LINE = 2_000
# A progress bar writes its line again and again: the last of these parts are looked at.
MAX_PARTS = 8
# None matches past the next ESC, so the time is linear in the line's length.
_ESCAPES = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,4}[@-~]|\x1b[ -/]?[0-~]?")


@dataclass(frozen=True, slots=True)
class FailureLine:
    """One line of a replica's log."""

    rank: int
    number: int
    """From 1."""
    text: str


def failure_lines(rank: int, first_number: int, data: bytes) -> list[FailureLine]:
    """The lines of `data`, whose first line has this number. What a carriage return overwrote
    counts as lines of the same number."""
    return [
        FailureLine(rank, number, text)
        for number, line in enumerate(data.split(b"\n"), first_number)
        for text in _parts(line)
    ]


def _parts(line: bytes) -> Iterator[str]:
    for part in line.rstrip(b"\r").split(b"\r")[-MAX_PARTS:]:
        text = _ESCAPES.sub("", part[: 2 * MAX_LINE].decode(errors="replace"))
        text = "".join(c if c.isprintable() or c == "\t" else " " for c in text)[:MAX_LINE]
        if text.strip():
            yield text.rstrip()
