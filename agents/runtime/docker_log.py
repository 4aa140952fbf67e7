"""Copies a container's log into a file, so that offsets stay valid when the engine rotates the log.

The engine stamps every entry with its time. A mark beside the copy holds the stamp of the newest
entry and its offset in the file, so that a copy that is resumed neither loses an entry nor writes
one twice, even if the engine has rotated the log meanwhile.
"""

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from docker.errors import APIError, DockerException
from docker.models.containers import Container
from docker.types import CancellableStream

# How long one request for a container's end may block; the log is followed again afterwards.
WAIT_SECONDS = 10
SECOND = len("2026-01-31T23:59:59")
# How many recent stamps are kept to detect repeated entries; an older stamp counts as repeated.
MAX_REMEMBERED = 4_096


@dataclass(frozen=True, slots=True)
class LogMark:
    """The first entry with this stamp begins at byte `start` of the file."""

    stamp: bytes
    start: int

    def line(self) -> bytes:
        """With a fixed width, so that one write replaces the earlier line."""
        return b"%s %020d" % (self.stamp, self.start)


NO_MARK = LogMark(b"", 0)


class RepeatFilter:
    """Detects entries that Docker 20.10 delivers again when it rotates a log that is followed."""

    def __init__(self) -> None:
        self._order: deque[bytes] = deque()
        self._known: set[bytes] = set()
        self._open: set[bytes] = set()

    def is_repeat(self, stamp: bytes, entry: bytes) -> bool:
        """Whether the entry came before; if not, remember it. Parts of one line share a stamp."""
        if stamp not in self._open:
            is_full = len(self._order) >= MAX_REMEMBERED
            if stamp in self._known or (is_full and stamp < self._order[0]):
                return True
            self._known.add(stamp)
            self._order.append(stamp)
            if is_full:
                self._known.discard(self._order.popleft())
        (self._open.discard if entry.endswith(b"\n") else self._open.add)(stamp)
        return False


class LogCopy:
    """The copy of one container's log at `path`. `run` blocks; `stop` ends it from elsewhere."""

    def __init__(self, container: Container, path: Path) -> None:
        self.container = container
        self.path = path
        self._stream: CancellableStream[bytes] | None = None
        self._stopped = False

    def run(self) -> bool:
        """True once the container has ended and everything that the engine has is copied."""
        try:
            while not self._stopped:
                self._copy(follow=True)
                if not self._stopped and self._has_ended():
                    # Docker 20.10 may stop serving a follower when it rotates: read once more.
                    self._copy(follow=False)
                    return True
        except APIError:
            return True  # the engine answers, but the container or its log is gone
        except (DockerException, OSError):
            return False  # the engine is unreachable: a later copy resumes from the mark
        return False

    def stop(self) -> None:
        self._stopped = True
        if self._stream is not None:
            with contextlib.suppress(DockerException, OSError, AttributeError):
                self._stream.close()

    def _has_ended(self) -> bool:
        """The log's stream ends shortly before its container, or when the connection breaks."""
        try:
            self.container.wait(timeout=WAIT_SECONDS)
        except OSError as error:
            if isinstance(error, APIError):
                raise
            return False
        return True

    def _copy(self, *, follow: bool) -> None:
        path = mark_path(self.path)
        path.touch()
        with self.path.open("ab", buffering=0) as log, path.open("r+b", buffering=0) as marks:
            mark = _read_mark(marks.read(), log.tell())
            skip, newest, repeats = log.tell() - mark.start, b"", RepeatFilter()
            for stamp, entry in self._entries(mark.stamp, follow=follow):
                if repeats.is_repeat(stamp, entry):
                    continue
                if mark.stamp and stamp > mark.stamp and not newest:
                    skip = 0  # the marked entry was rotated away: all of this is new
                if not skip and stamp != newest:
                    os.pwrite(marks.fileno(), LogMark(stamp, log.tell()).line(), 0)
                newest = stamp
                fresh = entry[skip:]
                skip = max(0, skip - len(entry))
                if fresh:
                    log.write(fresh)

    def _entries(self, after: bytes, *, follow: bool) -> Iterator[tuple[bytes, bytes]]:
        """Stamp and bytes of each entry, from the one stamped `after` on (empty: from the first).

        stdout and stderr are stamped before they are merged, so close stamps may be out of order:
        the entry is found by its own stamp, not by a later one.
        """
        since = unix_second(after) - 1 if after else None
        self._stream = self.container.logs(stream=True, follow=follow, timestamps=True, since=since)
        if self._stopped:  # by another thread, between the request and its response
            self.stop()
        first, found = True, not after
        for chunk in self._stream:
            stamp, _, entry = chunk.partition(b" ")
            if not found:
                is_gone = stamp > after and (first or unix_second(stamp) > unix_second(after) + 1)
                found = stamp == after or is_gone
            first = False
            if found:
                yield stamp, entry


def mark_path(log: Path) -> Path:
    return log.with_suffix(".mark")


def unix_second(stamp: bytes) -> int:
    """Since 1970. Stamps have a fixed width and are in UTC: 2026-01-31T23:59:59.123456789Z."""
    moment = datetime.fromisoformat(stamp[:SECOND].decode("ascii"))
    return int(moment.replace(tzinfo=UTC).timestamp())


def _read_mark(line: bytes, size: int) -> LogMark:
    """NO_MARK if the mark was not written completely, or the file ends before it."""
    stamp, _, start = line.partition(b" ")
    if not start.isdigit() or int(start) > size:
        return NO_MARK
    return LogMark(stamp, int(start))
