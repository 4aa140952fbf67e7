"""The log lines that arrived since a page's cursor."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from portal.job_logs.reading import LogChunk, last_lines, lines_since
from portal.job_logs.storage import open_logs
from portal.jobs.models import Replica
from portal.web.logs.cursor import Cursor
from portal.web.logs.lines import MAX_REPLICAS, LogLine, merge_by_arrival

# The most that one event carries, over all replicas.
EVENT_BYTES = 128 * 1024
# A page that is further behind than this gets the end of the log and the range it skips.
MAX_BEHIND_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SkippedLines:
    """Lines of a replica that the page is not sent, from `first` to `last`."""

    rank: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LogUpdate:
    """New lines, and the cursor after them."""

    cursor: Cursor
    lines: list[LogLine] = field(default_factory=list)
    skipped: list[SkippedLines] = field(default_factory=list)
    is_new_attempt: bool = False
    """The log starts again from the beginning."""
    has_more: bool = False
    """More lines are ready to be sent."""


def log_update(
    replicas: Sequence[Replica], cursor: Cursor, *, rank: int | None, is_final: bool
) -> LogUpdate:
    """`replicas`: of the last attempt; `rank`: the only one to follow, or None."""
    kept = [replica for replica in replicas if replica.log_removed_at is None]
    shown = [r for r in kept if rank is None or r.rank == rank][:MAX_REPLICAS]
    if not shown:
        return LogUpdate(cursor)
    attempt = shown[0].attempt.number
    is_new = attempt != cursor.attempt
    offsets = {} if is_new else dict(cursor.offsets)
    chunks, skipped, has_more = [], [], False
    budget = max(8 * 1024, EVENT_BYTES // len(shown))
    open_logs([r for r in shown if r.log_bytes > offsets.get(r.rank, 0)])
    for replica in shown:
        start = min(offsets.get(replica.rank, 0), replica.log_bytes)
        if replica.log_bytes - start > MAX_BEHIND_BYTES:
            chunk, gap = _skip_to_end(replica, start, budget)
            skipped.append(gap)
        else:
            chunk = lines_since(replica, start, budget, is_final=is_final)
        chunks.append(chunk)
        offsets[replica.rank] = chunk.end
        has_more |= chunk.end > start and chunk.end < replica.log_bytes and bool(chunk.lines)
    new = replace(cursor, attempt=attempt, offsets=offsets)
    return LogUpdate(new, merge_by_arrival(chunks), skipped, is_new, has_more)


def _skip_to_end(replica: Replica, start: int, budget: int) -> tuple[LogChunk, SkippedLines]:
    chunk = last_lines(replica, 1_000, budget)
    chunk = replace(chunk, lines=[line for line in chunk.lines if line.is_complete])
    first = lines_since(replica, start, budget).first_number
    return chunk, SkippedLines(replica.rank, first, max(first, chunk.first_number - 1))
