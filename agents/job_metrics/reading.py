"""Reads what is new in a metrics file. The file belongs to a job, so nothing about it is trusted.

A link is not followed, a pipe not waited for, and no more is read at once than a limit. A file that
the job has truncated or replaced is read from its beginning again, as its next part.
"""

import errno
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agents.contract.job_metrics import MAX_METRICS_FILE_BYTES, SkipReason
from agents.job_metrics.batch import FilePosition
from agents.job_metrics.lines import MAX_LINE_BYTES

# Bytes before a position by which the file is known again.
MARK_BYTES = 64
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class NewLines:
    """Whole lines, where they end, and what was skipped between them."""

    end: FilePosition
    lines: list[bytes] = field(default_factory=list)
    skipped: list[SkipReason] = field(default_factory=list)
    # The end lies within a line that is too long.
    is_in_long_line: bool = False


class _NotAFile(Exception):
    """Something else stands where the file should be."""


def read_new_lines(
    path: Path, start: FilePosition, limit: int, *, is_in_long_line: bool, is_ended: bool
) -> NewLines:
    """Read up to `limit` bytes. `is_ended`: nothing more is written, so a last line needs no end.
    A file that is absent or may not be read has no lines."""
    try:
        with _opened(path) as file:
            if file is None:
                return NewLines(start, is_in_long_line=is_in_long_line)
            if not _is_same(file, start):
                start, is_in_long_line = FilePosition(start.part + 1), False
            if start.offset >= MAX_METRICS_FILE_BYTES:
                return NewLines(start, skipped=[SkipReason.FILE_TOO_LARGE])
            limit = min(limit, MAX_METRICS_FILE_BYTES - start.offset)
            data = os.pread(file, limit, start.offset)
            size = len(data) if is_ended and len(data) < limit else _whole(data)
            end = FilePosition(start.part, start.offset + size, _mark(file, start.offset + size))
    except _NotAFile:
        return NewLines(start, skipped=[SkipReason.NOT_A_FILE])
    return _split(data[:size], end, is_in_long_line)


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """Its descriptor; None if there is no such file. Raises _NotAFile."""
    folder = file = None
    try:
        try:
            folder = os.open(path.parent, _FLAGS | os.O_DIRECTORY)
            file = os.open(path.name, _FLAGS, dir_fd=folder)
        except OSError as error:
            # Of a socket, opening it says ENXIO.
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENOTDIR):
                raise _NotAFile from error
        if file is not None and not stat.S_ISREG(os.fstat(file).st_mode):
            raise _NotAFile
        yield file
    finally:
        for opened in (file, folder):
            if opened is not None:
                os.close(opened)


def _is_same(file: int, position: FilePosition) -> bool:
    """Whether the file goes on from there: it is as long, and the same before that place."""
    is_long_enough = os.fstat(file).st_size >= position.offset
    return is_long_enough and _mark(file, position.offset) == position.mark


def _mark(file: int, offset: int) -> int:
    size = min(offset, MARK_BYTES)
    return zlib.crc32(os.pread(file, size, offset - size))


def _whole(data: bytes) -> int:
    """How much of it is whole lines, or of a line that is too long."""
    size = data.rfind(b"\n") + 1
    return size if len(data) - size < MAX_LINE_BYTES else len(data)


def _split(data: bytes, end: FilePosition, is_in_long_line: bool) -> NewLines:
    pieces = data.split(b"\n")
    skipped = list[SkipReason]()
    lines = list[bytes]()
    rest = pieces.pop()
    for piece in pieces:
        if is_in_long_line:
            is_in_long_line = False
        elif len(piece) > MAX_LINE_BYTES:
            skipped.append(SkipReason.LINE_TOO_LONG)
        else:
            lines.append(piece)
    if len(rest) >= MAX_LINE_BYTES and not is_in_long_line:
        skipped.append(SkipReason.LINE_TOO_LONG)
        is_in_long_line = True
    elif rest and not is_in_long_line:
        lines.append(rest)
    return NewLines(end, lines, skipped, is_in_long_line)
