"""The metrics files of all replicas of a node: what was read of each, and is not sent yet.

A replica's file is read a little at a time, and no further while the portal has not taken what was
read before: the file itself is the buffer. What is left in it when its replica is removed is read
then, thinned, and kept until it is sent.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.contract.errors import ContractErrorCode
from agents.contract.job_metrics import (
    MAX_CALL_POINTS,
    MAX_METRICS_BATCHES,
    MetricsResult,
    SkipReason,
)
from agents.job_metrics.batch import FilePosition, NewMetrics
from agents.job_metrics.lines import read_line
from agents.job_metrics.reading import read_new_lines

# Read of one file, and of all files, in one round.
CHUNK_BYTES, ROUND_BYTES = 256 << 10, 2 << 20
# Read of a file when its replica is removed, before its devices are free.
LAST_BYTES = 16 << 20
# Removed replicas whose points are kept while the portal is away.
MAX_REMOVED = 500
ONCE = frozenset({SkipReason.NOT_A_FILE, SkipReason.FILE_TOO_LARGE})


@dataclass
class MetricsFile:
    """One replica's file. `pending`: at most one batch that was sent, and one that grows."""

    replica: str
    path: Path
    position: FilePosition = field(default_factory=FilePosition)
    is_in_long_line: bool = False
    is_removed: bool = False
    # Reasons that are counted once and not with every round.
    reported: set[SkipReason] = field(default_factory=set)
    pending: deque[NewMetrics] = field(default_factory=deque)

    def read(self, limit: int, *, is_ended: bool) -> int:
        """Read on. Returns how many bytes were read."""
        found = read_new_lines(
            self.path,
            self.position,
            limit,
            is_in_long_line=self.is_in_long_line,
            is_ended=is_ended,
        )
        skipped = [why for why in found.skipped if why not in self.reported]
        self.reported |= ONCE.intersection(skipped)
        if found.end == self.position and not skipped:
            return 0
        is_new_part = found.end.part != self.position.part
        size = found.end.offset - (0 if is_new_part else self.position.offset)
        batch = self._growing(found.end)
        batch.add([], skipped)
        for line in found.lines:
            batch.add(*read_line(line))
        self.position = batch.end = found.end
        self.is_in_long_line = found.is_in_long_line
        return size

    def _growing(self, end: FilePosition) -> NewMetrics:
        last = self.pending[-1] if self.pending else None
        if last is None or last.is_sent or last.end.part != end.part:
            is_new_part = end.part != self.position.part
            start = FilePosition(end.part) if is_new_part else self.position
            self.pending.append(NewMetrics(self.replica, start, end))
        return self.pending[-1]

    def take(self, result: MetricsResult) -> None:
        """What the portal answered to the batch that was sent."""
        batch = self.pending[0]
        portal = FilePosition(result.part, result.offset, result.mark)
        if not result.code or portal == batch.end:
            self.pending.popleft()
        elif result.code == ContractErrorCode.OFFSET_MISMATCH and not self.is_removed:
            # The portal is further, as after a restart of this agent, or restored from a backup.
            self.pending.clear()
            self.position, self.is_in_long_line = portal, False
        else:
            self.pending.clear()


class MetricsFiles:
    """May be used from several threads. `path_of`: where a replica's file would be."""

    def __init__(self, path_of: Callable[[str], Path | None]) -> None:
        self._path_of = path_of
        self._files: dict[str, MetricsFile] = {}
        self._lock = threading.Lock()

    def read(self, replicas: Mapping[str, bool]) -> None:
        """One round: a little of each file. `replicas`: those that run or have ended, and whether
        they have ended."""
        room = ROUND_BYTES
        for replica, is_ended in replicas.items():
            if room <= 0:
                return
            with self._lock:
                file = self._file(replica)
                if file is not None and not file.pending and not file.is_removed:
                    room -= file.read(CHUNK_BYTES, is_ended=is_ended)

    def read_last(self, replica: str) -> None:
        """Read what is left, as the file is about to be removed."""
        with self._lock:
            file = self._file(replica)
            if file is None or file.is_removed:
                return
            left = LAST_BYTES
            while left > 0 and (size := file.read(CHUNK_BYTES, is_ended=True)):
                left -= size
            file.is_removed = True
            self._drop_oldest()

    def due(self) -> list[NewMetrics]:
        """The next batch of each replica, as far as one call carries them."""
        with self._lock:
            batches, room = list[NewMetrics](), MAX_CALL_POINTS
            for file in self._files.values():
                if not file.pending or len(batches) == MAX_METRICS_BATCHES:
                    continue
                batch = file.pending[0]
                if batch.point_count <= room:
                    room -= batch.point_count
                    batch.is_sent = True
                    batches.append(batch)
            # The next call begins with those for which this one had no room.
            for batch in batches:
                self._files[batch.replica] = self._files.pop(batch.replica)
            return batches

    def take(self, results: Collection[MetricsResult]) -> None:
        with self._lock:
            for result in results:
                if (file := self._files.get(result.replica)) and file.pending:
                    file.take(result)

    def forget_except(self, replicas: Collection[str]) -> None:
        """Drop what is gone from the node and has nothing left to send."""
        with self._lock:
            gone = self._files.keys() - replicas
            for replica in [key for key in gone if not self._files[key].pending]:
                del self._files[replica]

    def _file(self, replica: str) -> MetricsFile | None:
        if replica not in self._files:
            path = self._path_of(replica)
            # The parent is the replica's folder: without it there is nothing to read.
            if path is None or not path.parent.exists():
                return None
            self._files[replica] = MetricsFile(replica, path)
        return self._files[replica]

    def _drop_oldest(self) -> None:
        removed = [key for key, file in self._files.items() if file.is_removed]
        for replica in removed[: max(0, len(removed) - MAX_REMOVED)]:
            del self._files[replica]
