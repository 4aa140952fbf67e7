"""The logs of a gang as one, in the order of arrival: its end, and what follows a position.

A merged log has no bytes of its own. How far it has been read is one offset in the log of each
rank, so a read is as bounded as that of a single log, and nothing is kept between two reads.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from portal.job_logs.reading import CHUNK_BYTES, LogChunk, StoredLine, last_lines, lines_since
from portal.job_logs.storage import open_logs
from portal.jobs.models import Replica

# Logs that one read merges; each of the others is read by itself.
MAX_LOGS = 64
# Of each log, one read sees at least this much.
MIN_LOG_BYTES = 8 * 1024
MIN_TAIL_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class MergedLines:
    """Lines of several ranks, and where to continue."""

    lines: list[StoredLine]
    offsets: dict[int, int]
    """By rank: the offset after its last line here."""
    has_more: bool = False
    """More has arrived than these lines."""


def merged_lines(chunks: Iterable[LogChunk]) -> list[StoredLine]:
    """In the order of arrival. Lines of one rank keep their order, even if its clock steps."""
    keyed = [pair for chunk in chunks for pair in _keyed(chunk)]
    keyed.sort(key=lambda pair: (pair[0], pair[1].rank, pair[1].number))
    return [line for _, line in keyed]


def merged_tail(replicas: Sequence[Replica], max_lines: int) -> MergedLines:
    """The last lines of all of these logs together."""
    budget = max(MIN_TAIL_BYTES, CHUNK_BYTES // max(1, len(replicas)))
    chunks = [last_lines(replica, max_lines, budget) for replica in replicas]
    ends = {replica.rank: chunk.end for replica, chunk in zip(replicas, chunks, strict=True)}
    lines = merged_lines(chunks)
    return MergedLines(lines[max(0, len(lines) - max_lines) :], ends)


def merged_since(
    replicas: Sequence[Replica],
    offsets: Mapping[int, int],
    *,
    budget: int = CHUNK_BYTES,
    is_final: bool = False,
) -> MergedLines:
    """Complete lines after these offsets by rank, 0 where there is none; with `is_final`, an
    incomplete last line, too. Two queries."""
    share = max(MIN_LOG_BYTES, budget // max(1, len(replicas)))
    starts = {r.rank: min(offsets.get(r.rank, 0), r.log_bytes) for r in replicas}
    open_logs([replica for replica in replicas if replica.log_bytes > starts[replica.rank]])
    chunks = [lines_since(r, starts[r.rank], share, is_final=is_final) for r in replicas]
    # A log with more to come may go on with lines that arrived before those of the others.
    horizons = [
        max(line.at for line in chunk.lines)
        for replica, chunk in zip(replicas, chunks, strict=True)
        if chunk.lines and starts[replica.rank] + share < replica.log_bytes
    ]
    horizon = min(horizons, default=None)
    kept = [chunk if horizon is None else _until(chunk, horizon) for chunk in chunks]
    ends = {replica.rank: chunk.end for replica, chunk in zip(replicas, kept, strict=True)}
    return MergedLines(merged_lines(kept), ends, has_more=horizon is not None)


def _keyed(chunk: LogChunk) -> Iterator[tuple[int, StoredLine]]:
    """Each line with the time that sorts it."""
    latest = accumulate((line.at for line in chunk.lines), max)
    return zip(latest, chunk.lines, strict=True)


def _until(chunk: LogChunk, horizon: int) -> LogChunk:
    """Its lines that arrived no later."""
    lines = [line for at, line in _keyed(chunk) if at <= horizon]
    if len(lines) == len(chunk.lines):
        return chunk
    return LogChunk(lines, chunk.start, chunk.start + sum(_size(line) for line in lines))


def _size(line: StoredLine) -> int:
    """How many bytes of the log it has."""
    return len(line.data) + line.cut_bytes + line.is_complete
