"""The lines that a job's log shows: of one replica, or of all in the order of their arrival."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate

from portal.job_logs.reading import (
    PIECE_BYTES,
    SEARCH_BYTES,
    Line,
    Piece,
    last_lines,
    lines_from,
    lines_in,
    search,
)
from portal.jobs.models import Replica
from portal.web.logs.text import shown

LINES = 1_000
HITS = 200
# A gang's replicas that "all" shows together; each of the others has its own page.
TOGETHER = 32


@dataclass(frozen=True, slots=True)
class LogLine:
    """`more`: bytes of it that are only in the raw log. `is_open`: its end has not come yet."""

    rank: int
    number: int
    text: str
    at: datetime | None = None
    more: int = 0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Hits:
    """`on`: where to look on, as `rank-offset`; empty at the end."""

    lines: list[LogLine]
    on: str


def drawn(line: Line) -> LogLine:
    at = datetime.fromtimestamp(line.at / 1000, UTC) if line.at else None
    return LogLine(line.rank, line.number, shown(line.data), at, line.more, not line.is_whole)


def merged(pieces: Iterable[Piece]) -> list[LogLine]:
    """In the order of arrival; lines of one replica stay in theirs, also where clocks stepped."""
    keyed = []
    for piece in pieces:
        latest = accumulate((line.at for line in piece.lines), max)
        keyed += [(at, line.rank, line) for at, line in zip(latest, piece.lines, strict=True)]
    return [drawn(line) for _, _, line in sorted(keyed, key=lambda k: (k[0], k[1], k[2].number))]


def tail(replicas: Sequence[Replica], most: int = LINES) -> tuple[list[LogLine], dict[int, int]]:
    """The last lines, and by rank the offset from which what comes later goes on."""
    budget = max(16 * 1024, PIECE_BYTES // max(1, len(replicas)))
    pieces = [(r.rank, last_lines(r, most, budget)) for r in replicas]
    return merged(p for _, p in pieces)[-most:], {rank: piece.end for rank, piece in pieces}


def page_of(replica: Replica, number: int) -> list[LogLine]:
    """A page of one replica's log from line `number` on."""
    return [drawn(line) for line in lines_from(replica, number, LINES).lines]


def found(replicas: Sequence[Replica], words: str, on: str) -> Hits:
    """Lines with the words, rank by rank, a bounded number and after a bounded look."""
    rank, start = _place(on)
    hits: list[Line] = []
    left = SEARCH_BYTES
    for replica in replicas:
        if replica.rank < rank:
            continue
        begin = start if replica.rank == rank else 0
        if len(hits) == HITS or left <= 0:
            return Hits([drawn(line) for line in hits], f"{replica.rank}-{begin}")
        here = search(replica, words, start=begin, most=HITS - len(hits), budget=left)
        hits += here.lines
        left -= here.looked_at
        if here.next is not None:
            return Hits([drawn(line) for line in hits], f"{replica.rank}-{here.next}")
    return Hits([drawn(line) for line in hits], "")


def _place(on: str) -> tuple[int, int]:
    rank, _, start = on.partition("-")
    if rank.isascii() and rank.isdecimal() and start.isascii() and start.isdecimal():
        return int(rank[:6]), int(start[:18])
    return 0, 0


def count(replicas: Iterable[Replica]) -> int:
    """All lines that have arrived."""
    return sum(lines_in(replica) for replica in replicas)
