"""The part of a replica's log that says why it failed: its end, and the last traceback before it.

Bounded whatever the log's size: at most TAIL_BYTES of the end and TRACEBACK_BYTES around a
traceback are looked at, and SEARCH_BYTES are searched for it.
"""

from portal.diagnosis.log_text import FailureLine, failure_lines
from portal.diagnosis.tracebacks import HEADER
from portal.job_logs.storage import LogRemoved, log_stream, read_log
from portal.jobs.models import Replica

TAIL_BYTES = 256 * 1024
# Dumps of all ranks may follow a traceback, megabytes of them.
SEARCH_BYTES = 8 << 20
BLOCK_BYTES = 1 << 20
TRACEBACK_BYTES = 64 * 1024
_HEADER = HEADER.encode()


def replica_log_end(replica: Replica) -> list[FailureLine]:
    """The lines that a diagnosis looks at; none if the log was removed. Raises StoreError."""
    try:
        start = max(0, replica.log_bytes - TAIL_BYTES)
        tail = read_log(replica, start, TAIL_BYTES)
        if start:
            skip = tail.find(b"\n") + 1
            start, tail = start + skip, tail[skip:]
        lines = failure_lines(replica.rank, _number_at(replica, start), tail)
        return lines if _HEADER in tail else _earlier_traceback(replica, start) + lines
    except LogRemoved:
        return []


def _earlier_traceback(replica: Replica, end: int) -> list[FailureLine]:
    """The last traceback before `end`, with what follows it."""
    at, oldest = end, max(0, end - SEARCH_BYTES)
    while at > oldest:
        begin = max(oldest, at - BLOCK_BYTES)
        # A header may lie across two blocks.
        found = read_log(replica, begin, at - begin + len(_HEADER)).rfind(_HEADER)
        if found >= 0:
            return _lines_around(replica, begin + found, end)
        at = begin
    return []


def _lines_around(replica: Replica, place: int, end: int) -> list[FailureLine]:
    """Whole lines from the one that contains `place`, none of which reaches beyond `end`."""
    begin = max(0, place - 512)
    data = read_log(replica, begin, min(TRACEBACK_BYTES, end - begin))
    skip = data.rfind(b"\n", 0, place - begin) + 1
    return failure_lines(replica.rank, _number_at(replica, begin + skip), data[skip:])


def _number_at(replica: Replica, offset: int) -> int:
    return log_stream(replica).lines_before(offset) + 1 if replica.log_bytes else 1
