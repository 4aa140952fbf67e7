"""Logs: one file per replica under `var`, read by byte offset.

`Replica.log_bytes` says how much of a file counts; bytes after it are from a failed write.
"""

import time
from pathlib import Path

from django.conf import settings

from portal.job_logs.index import arrival_record, newline_counts
from portal.jobs.models import Replica

# A tail reads this far back; longer lines are cut at their start.
TAIL_BYTES = 256 * 1024


def log_path(replica: Replica) -> Path:
    attempt = replica.attempt
    folder = settings.PLATFORM.var / "logs" / str(attempt.job.uid) / str(attempt.number)
    return Path(folder / f"{replica.rank}.log")


def read_log(replica: Replica, offset: int, limit: int) -> bytes:
    """At most `limit` bytes from `offset`; empty at the end, or if nothing has arrived."""
    size = min(limit, replica.log_bytes - offset)
    if size <= 0 or offset < 0:
        return b""
    try:
        with log_path(replica).open("rb") as log:
            log.seek(offset)
            return log.read(size)
    except FileNotFoundError:
        return b""


def tail_lines(replica: Replica, n: int) -> list[str]:
    """The last `n` lines without line ends. Invalid UTF-8 is shown as U+FFFD."""
    start = max(0, replica.log_bytes - TAIL_BYTES)
    lines = read_log(replica, start, TAIL_BYTES).decode(errors="replace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines[-n:] if n > 0 else []


def write_log(replica: Replica, offset: int, data: bytes) -> None:
    """Write `data` at `offset` and drop what follows. The replica's row is locked by the caller."""
    path = log_path(replica)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with path.open("r+b") as log:
        log.seek(offset)
        log.write(data)
        log.truncate()
    # Index only what counts already: this write may yet fail.
    newline_counts(path, offset)
    arrival_record(path, offset, time.time_ns() // 1_000_000)
