"""The log lines of a page: of one replica, or of a gang merged by arrival."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from portal.job_logs.merging import merged_lines, merged_tail
from portal.job_logs.reading import (
    SEARCH_BYTES,
    LogChunk,
    StoredLine,
    count_lines,
    lines_from,
    search,
)
from portal.jobs.models import Replica
from portal.web.logs.text import decode_line

PAGE_LINES = 1_000
MAX_HITS = 200
# Replicas of a gang that "all" shows together; each of the others has a page of its own.
MAX_REPLICAS = 32


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line as a page shows it."""

    rank: int
    number: int
    text: str
    at: datetime | None = None
    omitted_bytes: int = 0
    """Bytes of the line that only the raw log has."""
    is_open: bool = False
    """The end of the line has not arrived yet."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The lines that match a search."""

    lines: list[LogLine]
    next_position: str
    """Where the search continues, as `rank-offset`; empty at the end of the log."""


def log_line(line: StoredLine) -> LogLine:
    at = datetime.fromtimestamp(line.at / 1000, UTC) if line.at else None
    return LogLine(
        line.rank, line.number, decode_line(line.data), at, line.cut_bytes, not line.is_complete
    )


def merge_by_arrival(chunks: Iterable[LogChunk]) -> list[LogLine]:
    """In the order of arrival, as a page shows them."""
    return [log_line(line) for line in merged_lines(chunks)]


def tail(
    replicas: Sequence[Replica], max_lines: int = PAGE_LINES
) -> tuple[list[LogLine], dict[int, int]]:
    """The last lines, and the offset after them by rank."""
    end = merged_tail(replicas, max_lines)
    return [log_line(line) for line in end.lines], end.offsets


def log_page(replica: Replica, number: int) -> list[LogLine]:
    """One page of a replica's log, from line `number`."""
    return [log_line(line) for line in lines_from(replica, number, PAGE_LINES).lines]


def search_logs(replicas: Sequence[Replica], words: str, position: str) -> Hits:
    """Lines that contain the words, rank by rank. Both the hits and the bytes searched are
    bounded."""
    rank, start = _parse_position(position)
    hits: list[StoredLine] = []
    budget = SEARCH_BYTES
    for replica in replicas:
        if replica.rank < rank:
            continue
        begin = start if replica.rank == rank else 0
        if len(hits) == MAX_HITS or budget <= 0:
            return _hits(hits, f"{replica.rank}-{begin}")
        result = search(replica, words, start=begin, max_hits=MAX_HITS - len(hits), budget=budget)
        hits += result.lines
        budget -= result.bytes_searched
        if result.next_offset is not None:
            return _hits(hits, f"{replica.rank}-{result.next_offset}")
    return _hits(hits, "")


def _hits(lines: list[StoredLine], next_position: str) -> Hits:
    return Hits([log_line(line) for line in lines], next_position)


def _parse_position(position: str) -> tuple[int, int]:
    rank, _, start = position.partition("-")
    if rank.isascii() and rank.isdecimal() and start.isascii() and start.isdecimal():
        return int(rank[:6]), int(start[:18])
    return 0, 0


def line_count(replicas: Iterable[Replica]) -> int:
    """All lines that have arrived."""
    return sum(count_lines(replica) for replica in replicas)
