"""What came to a job's log since a page last heard of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from portal.job_logs.reading import Piece, last_lines, lines_since
from portal.jobs.models import Replica
from portal.web.logs.cursor import Cursor
from portal.web.logs.lines import TOGETHER, LogLine, merged

# What one event carries at most, over all replicas.
EVENT_BYTES = 128 * 1024
# A page that is further behind than this is shown the end; the lines between stand in the log.
BEHIND_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Skipped:
    """Lines of a replica that the page was not sent, from `first` to `last`."""

    rank: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class News:
    """`is_new_attempt`: the log begins anew. `has_more`: more lines wait to be sent."""

    cursor: Cursor
    lines: list[LogLine] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    is_new_attempt: bool = False
    has_more: bool = False


def followed(
    replicas: Sequence[Replica], cursor: Cursor, *, rank: int | None, is_final: bool
) -> News:
    """The lines since `cursor`, and the cursor after them. `replicas`: of the last attempt."""
    shown = [r for r in replicas if rank is None or r.rank == rank][:TOGETHER]
    if not shown:
        return News(cursor)
    attempt = shown[0].attempt.number
    is_new = attempt != cursor.attempt
    offsets = {} if is_new else dict(cursor.offsets)
    pieces, skipped, has_more = [], [], False
    budget = max(8 * 1024, EVENT_BYTES // len(shown))
    for replica in shown:
        start = min(offsets.get(replica.rank, 0), replica.log_bytes)
        if replica.log_bytes - start > BEHIND_BYTES:
            piece, gap = _end_of(replica, start, budget)
            skipped.append(gap)
        else:
            piece = lines_since(replica, start, budget, is_final=is_final)
        pieces.append(piece)
        offsets[replica.rank] = piece.end
        has_more |= piece.end > start and piece.end < replica.log_bytes and bool(piece.lines)
    new = replace(cursor, attempt=attempt, offsets=offsets)
    return News(new, merged(pieces), skipped, is_new, has_more)


def _end_of(replica: Replica, start: int, budget: int) -> tuple[Piece, Skipped]:
    piece = last_lines(replica, 1_000, budget)
    lines = [line for line in piece.lines if line.is_whole]
    piece = replace(piece, lines=lines)
    since = lines_since(replica, start, budget)
    first = since.first
    return piece, Skipped(replica.rank, first, max(first, piece.first - 1))
