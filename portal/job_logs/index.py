"""An index beside each log: where its lines are, and when its bytes arrived.

`0.lines` has the number of newlines up to the end of each full block of `0.log`; `0.times` has the
offset and time of arrivals, at most one a second. Both are written in place and describe only bytes
that count, so concurrent writers write the same. Without them a log still reads: its lines are
counted again and have no times.
"""

import os
import struct
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

BLOCK = 1 << 20
COUNT = struct.Struct("<Q")
ARRIVAL = struct.Struct("<QQ")
ARRIVAL_MILLISECONDS = 1_000


def newline_counts(log: Path, end: int) -> list[int]:
    """The number of newlines up to the end of each full block below `end`; missing ones are counted
    and stored."""
    side = log.with_suffix(".lines")
    whole = end // BLOCK
    try:
        kept = side.read_bytes()[: whole * COUNT.size]
    except FileNotFoundError:
        kept = b""
    known = [count for (count,) in COUNT.iter_unpack(kept[: len(kept) // 8 * 8])]
    if len(known) == whole:
        return known
    first = len(known)
    total = known[-1] if known else 0
    with log.open("rb") as file:
        file.seek(first * BLOCK)
        for _ in range(first, whole):
            total += file.read(BLOCK).count(b"\n")
            known.append(total)
    _write_at(side, first * COUNT.size, b"".join(map(COUNT.pack, known[first:])))
    return known


def lines_before(log: Path, offset: int) -> int:
    """How many lines end before `offset`."""
    found = newline_counts(log, offset)
    start = len(found) * BLOCK
    return (found[-1] if found else 0) + _read(log, start, offset - start).count(b"\n")


def line_offset(log: Path, line: int, end: int) -> int:
    """The offset of line `line`, from 1; `end` if there are fewer lines."""
    if line <= 1:
        return 0
    found = newline_counts(log, end)
    at = bisect_left(found, line - 1)
    wanted = line - 1 - (found[at - 1] if at else 0)
    data = _read(log, at * BLOCK, min(BLOCK, end - at * BLOCK))
    place = -1
    for _ in range(wanted):
        place = data.find(b"\n", place + 1)
        if place < 0:
            return end
    return at * BLOCK + place + 1


def arrival_record(log: Path, offset: int, milliseconds: int) -> None:
    """Record that the bytes from `offset` arrived now; drop records of a failed write after it."""
    side = log.with_suffix(".times")
    side.touch()
    with side.open("r+b") as file:
        size = file.seek(0, os.SEEK_END) // ARRIVAL.size * ARRIVAL.size
        while size:
            file.seek(size - ARRIVAL.size)
            last, at = ARRIVAL.unpack(file.read(ARRIVAL.size))
            if last < offset:
                if milliseconds < at + ARRIVAL_MILLISECONDS:
                    file.truncate(size)
                    return
                break
            size -= ARRIVAL.size
        file.seek(size)
        file.write(ARRIVAL.pack(offset, milliseconds))
        file.truncate()


def arrivals(log: Path, start: int, end: int) -> list[tuple[int, int]]:
    """(offset, milliseconds) of arrivals in between, and of the last one before."""
    try:
        with log.with_suffix(".times").open("rb") as file:
            return list(_arrivals(file.fileno(), start, end))
    except FileNotFoundError:
        return []


def _arrivals(file: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    count = os.fstat(file).st_size // ARRIVAL.size
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if _arrival(file, middle)[0] <= start:
            low = middle + 1
        else:
            high = middle
    for place in range(max(0, low - 1), count):
        offset, at = _arrival(file, place)
        if offset >= end:
            return
        yield offset, at


def _arrival(file: int, place: int) -> tuple[int, int]:
    offset, at = ARRIVAL.unpack(os.pread(file, ARRIVAL.size, place * ARRIVAL.size))
    return offset, at


def _read(log: Path, start: int, size: int) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(start)
            return file.read(max(0, size))
    except FileNotFoundError:
        return b""


def _write_at(path: Path, offset: int, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o640)
    try:
        os.pwrite(file, data, offset)
    finally:
        os.close(file)
