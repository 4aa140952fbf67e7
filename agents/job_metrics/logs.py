"""Metrics in the logs of all replicas of a node: what was found in each, and is not sent yet.

Log shipping passes on each byte that the portal has. So nothing is read twice, except after a
restart: then the last of what was shipped is read again, as its points may not have been sent.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from agents.contract.errors import ContractErrorCode
from agents.contract.job_metrics import (
    MAX_CALL_POINTS,
    MAX_METRICS_BATCHES,
    MetricsResult,
    SkipReason,
)
from agents.job_metrics.batch import FilePosition, NewMetrics
from agents.job_metrics.lines import read_line
from agents.job_metrics.log_lines import LogLines

# Read again of a log when its first bytes since a restart are passed on.
AGAIN_BYTES = 256 << 10
# Removed replicas whose points are kept while the portal is away.
MAX_REMOVED = 500

ReadLog = Callable[[str, int, int], bytes]


@dataclass
class ReportingLog:
    """One replica's log. `pending`: at most one batch that was sent, and one that grows."""

    replica: str
    lines: LogLines = field(default_factory=LogLines)
    pending: deque[NewMetrics] = field(default_factory=deque)

    def feed(self, offset: int, data: bytes) -> None:
        for line in self.lines.feed(offset, data):
            batch = self._growing(line.start)
            if line.is_too_long:
                batch.add([], [SkipReason.LINE_TOO_LONG])
            else:
                batch.add(*read_line(line.text))
            batch.end = FilePosition(offset=max(batch.end.offset, line.end))

    def _growing(self, start: int) -> NewMetrics:
        if not self.pending or self.pending[-1].is_sent:
            at = FilePosition(offset=start)
            self.pending.append(NewMetrics(self.replica, at, at))
        return self.pending[-1]


class MetricsLogs:
    """May be used from several threads. `read`: bytes of a replica's log, from an offset on."""

    def __init__(self, read: ReadLog) -> None:
        self._read = read
        self._logs: dict[str, ReportingLog] = {}
        self._lock = threading.Lock()

    def feed(self, replica: str, offset: int, data: bytes) -> None:
        """Bytes that log shipping has passed on."""
        with self._lock:
            log = self._logs.get(replica)
            if log is None:
                log = self._logs[replica] = ReportingLog(replica)
                again = max(0, offset - AGAIN_BYTES)
                log.feed(again, self._read(replica, again, offset - again) if offset else b"")
            log.feed(offset, data)

    def due(self) -> list[NewMetrics]:
        """The next batch of each replica, as far as one call carries them."""
        with self._lock:
            batches, room = list[NewMetrics](), MAX_CALL_POINTS
            for log in self._logs.values():
                if not log.pending or len(batches) == MAX_METRICS_BATCHES:
                    continue
                batch = log.pending[0]
                if batch.point_count <= room:
                    room -= batch.point_count
                    batch.is_sent = True
                    batches.append(batch)
            # The next call begins with those for which this one had no room.
            for batch in batches:
                self._logs[batch.replica] = self._logs.pop(batch.replica)
            return batches

    def take(self, results: Collection[MetricsResult]) -> None:
        """What the portal answered to the batches that were sent."""
        with self._lock:
            for result in results:
                log = self._logs.get(result.replica)
                if log is None or not log.pending:
                    continue
                batch = log.pending[0]
                is_part = batch.start.offset < result.offset < batch.end.offset
                if result.code == ContractErrorCode.OFFSET_MISMATCH and is_part:
                    self._begin_again(log, result.offset)
                elif not result.code or result.code == ContractErrorCode.OFFSET_MISMATCH:
                    log.pending.popleft()
                else:
                    log.pending.clear()

    def drop(self) -> None:
        """Forget all points that are not sent: the portal does not take them."""
        with self._lock:
            for log in self._logs.values():
                log.pending.clear()

    def forget_except(self, replicas: Collection[str]) -> None:
        """Drop what is gone from the node and has nothing left to send."""
        with self._lock:
            gone = [key for key in self._logs if key not in replicas]
            left = [key for key in gone if self._logs[key].pending]
            for replica in {*gone} - {*left[-MAX_REMOVED:]}:
                del self._logs[replica]

    def _begin_again(self, log: ReportingLog, offset: int) -> None:
        """The portal has a part of the batch, which an agent before this one has sent."""
        end = log.lines.end
        log.pending.clear()
        log.lines = LogLines()
        log.lines.begin(offset)
        log.feed(offset, self._read(log.replica, offset, end - offset))
