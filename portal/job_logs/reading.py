"""Read a log by lines, in bounded chunks: its end, a page, what arrived since, and search."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from portal.job_logs.storage import log_stream, read_log
from portal.jobs.models import Replica

# A search reads this much at a time.
BLOCK = 1 << 20
# One read returns at most this much; the next one continues.
CHUNK_BYTES = 512 * 1024
# Longer lines are cut for display; the raw log has them in full.
LINE_BYTES = 8 * 1024
# One search reads at most this much; the reader may then continue it.
SEARCH_BYTES = 256 << 20
# A line with a hit is read this far beyond its block.
REST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class StoredLine:
    """A line, by its number from 1."""

    rank: int
    number: int
    data: bytes
    at: int = 0
    """When it arrived, in milliseconds since the epoch; 0 if not recorded."""
    cut_bytes: int = 0
    is_complete: bool = True
    """Its end has arrived."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Consecutive lines."""

    lines: list[StoredLine]
    start: int
    end: int
    """The offset after the last complete line."""

    @property
    def first_number(self) -> int:
        return self.lines[0].number if self.lines else 1


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Lines with hits. `next_offset`: where to continue, or None at the end."""

    lines: list[StoredLine]
    next_offset: int | None
    bytes_searched: int


def last_lines(replica: Replica, max_lines: int, budget: int = CHUNK_BYTES) -> LogChunk:
    """The last lines, fewer if they are longer than the budget."""
    end = replica.log_bytes
    start = max(0, end - budget)
    data = read_log(replica, start, budget)
    if start:
        # The first line is partial, unless a line begins exactly here: then one line is lost.
        skip = data.find(b"\n") + 1
        start, data = start + skip, data[skip:]
    cut = len(data)
    for _ in range(max_lines + (not data.endswith(b"\n"))):
        cut = data.rfind(b"\n", 0, max(0, cut - 1)) + 1
        if cut <= 0:
            break
    cut = max(0, cut)
    return _chunk(replica, start + cut, data[cut:])


def lines_from(
    replica: Replica, number: int, max_lines: int, budget: int = CHUNK_BYTES
) -> LogChunk:
    """At most `max_lines` lines from line `number` on."""
    if not replica.log_bytes:
        return LogChunk([], 0, 0)
    start = log_stream(replica).line_offset(number)
    return _chunk(replica, start, read_log(replica, start, budget), max_lines=max_lines)


def lines_since(replica: Replica, offset: int, budget: int, *, is_final: bool = False) -> LogChunk:
    """Complete lines since `offset`; with `is_final`, an incomplete last line, too."""
    data = read_log(replica, offset, budget)
    if not data:
        return LogChunk([], offset, offset)
    is_at_end = offset + len(data) >= replica.log_bytes
    complete = data.rfind(b"\n") + 1
    # A line that is longer than the budget goes out in parts, else it would never come.
    if not complete and len(data) < budget and not (is_final and is_at_end):
        return LogChunk([], offset, offset)
    data = data if (is_final and is_at_end) or not complete else data[:complete]
    return _chunk(replica, offset, data, takes_all=True)


def count_lines(replica: Replica) -> int:
    """How many lines have arrived, counting an incomplete last one."""
    end = replica.log_bytes
    if not end:
        return 0
    is_open = read_log(replica, end - 1, 1) != b"\n"
    return log_stream(replica).lines_before(end) + is_open


def search(
    replica: Replica, words: str, *, start: int = 0, max_hits: int, budget: int
) -> SearchResult:
    """Lines that contain the words, from `start` on. Lower case matches upper case, too."""
    needle = words.encode()
    hits: list[StoredLine] = []
    end = replica.log_bytes
    at = start
    while at < end and at - start < budget:
        block = at // BLOCK
        base = block * BLOCK
        data = read_log(replica, base, BLOCK)
        before = log_stream(replica).lines_before(base)
        place = at - base
        for where in _hits(data, needle, place):
            hit = _line_around(replica, base, data, where, before)
            if hits and hits[-1].number == hit.number:
                continue
            if len(hits) == max_hits:
                return SearchResult(hits, base + where, base + where - start)
            hits.append(hit)
        if not data:
            break
        # Words may span two blocks.
        edge = base + len(data)
        at = edge
        line = _across(replica, edge, needle, before, data) if edge < end else None
        if line and not (hits and hits[-1].number == line.number):
            hits.append(line)
    return SearchResult(hits, at if at < end else None, min(at, end) - start)


def _hits(data: bytes, needle: bytes, start: int) -> Iterator[int]:
    """One position for each line with the needle."""
    haystack = data.lower() if needle == needle.lower() else data
    place = haystack.find(needle, start)
    while place >= 0:
        yield place
        following = data.find(b"\n", place)
        if following < 0:
            return
        place = haystack.find(needle, following + 1)


def _across(
    replica: Replica, edge: int, needle: bytes, before: int, data: bytes
) -> StoredLine | None:
    room = len(needle) - 1
    if room <= 0:
        return None
    seam = read_log(replica, edge - room, 2 * room)
    place = next(_hits(seam, needle, 0), None)
    if place is None:
        return None
    base = edge - len(data)
    return _line_around(replica, base, data, edge - room + place - base, before)


def _line_around(replica: Replica, base: int, data: bytes, where: int, before: int) -> StoredLine:
    begin = data.rfind(b"\n", 0, where) + 1
    number = before + data.count(b"\n", 0, begin) + 1
    stop = data.find(b"\n", where)
    text = data[begin:stop] if stop >= 0 else data[begin:]
    if not begin and base:
        back = max(0, base - REST_BYTES)
        text = read_log(replica, back, base - back).rpartition(b"\n")[2] + text
    if stop < 0:
        text += read_log(replica, base + len(data), REST_BYTES).partition(b"\n")[0]
    at = _time_of(log_stream(replica).arrivals(base + begin, base + begin + 1), base + begin)
    return StoredLine(replica.rank, number, text[:LINE_BYTES], at, max(0, len(text) - LINE_BYTES))


def _chunk(
    replica: Replica,
    start: int,
    data: bytes,
    *,
    max_lines: int | None = None,
    takes_all: bool = False,
) -> LogChunk:
    """The lines of `data`, which begins at `start`."""
    if not data:
        return LogChunk([], start, start)
    stream = log_stream(replica)
    number = stream.lines_before(start) + 1
    came = stream.arrivals(start, start + len(data))
    lines: list[StoredLine] = []
    place = end = start
    passed = 0
    for text in islice(data.split(b"\n"), max_lines):
        is_complete = place + len(text) - start < len(data)
        if not is_complete and not text:
            break
        while passed + 1 < len(came) and came[passed + 1][0] <= place:
            passed += 1
        at = came[passed][1] if came and came[passed][0] <= place else 0
        more = max(0, len(text) - LINE_BYTES)
        lines.append(StoredLine(replica.rank, number, text[:LINE_BYTES], at, more, is_complete))
        place += len(text) + 1
        number += 1
        if is_complete or takes_all:
            end = min(place, start + len(data))
    return LogChunk(lines, start, end)


def _time_of(came: list[tuple[int, int]], offset: int) -> int:
    return next((at for place, at in reversed(came) if place <= offset), 0)
