"""Reads a stream: bytes by offset, and where its lines are, with bounded memory."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from zlib import crc32

from portal.storage.arrivals import unpack_arrivals
from portal.storage.errors import ObjectMissing, SizeMismatch
from portal.storage.models import Segment
from portal.storage.stores import store_by_key

COLUMNS = (
    "pk", "start", "size", "crc32", "newlines", "store__key", "object_name", "object_offset",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamSegment:
    """A segment as it is read."""

    pk: int
    start: int
    size: int
    crc32: int
    newlines: int
    store_key: str
    object_name: str
    object_offset: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Stream:
    """The first `size` bytes of a stream, as the database counts them."""

    def __init__(self, name: str, size: int, segments: Sequence[StreamSegment]) -> None:
        self.name = name
        self.size = size
        self._set_segments(segments)
        self._loaded: tuple[int, bytes] = (0, b"")
        self._arrivals: dict[int, bytes] = {}

    @property
    def first_gap(self) -> int | None:
        """The first offset whose bytes are unknown; None if all are known."""
        at = 0
        for segment in self.segments:
            if segment.start != at:
                return at
            at = segment.end
        return at if at < self.size else None

    def read(self, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`, fewer only at the end. Raises StoreError."""
        end = min(self.size, offset + limit)
        pieces = []
        at = offset
        while 0 <= at < end:
            segment = self._segment_at(at)
            data = self._data(segment)
            pieces.append(data[at - segment.start : end - segment.start])
            at = segment.end
        return b"".join(pieces)

    def read_segment(self, offset: int) -> bytes:
        """The bytes from `offset` to the end of its segment: the cheapest way to read it all."""
        if not 0 <= offset < self.size:
            return b""
        return self.read(offset, self._segment_at(offset).end - offset)

    def segments_from(self, offset: int) -> list[StreamSegment]:
        """The segments with bytes after `offset`; a negative one counts from the end."""
        start = offset if offset >= 0 else self.size + offset
        return [segment for segment in self.segments if segment.end > start]

    def lines_before(self, offset: int) -> int:
        """How many lines end before `offset`."""
        if offset <= 0 or not self.size:
            return 0
        segment = self._segment_at(min(offset, self.size) - 1)
        counted = self._newlines_before[self._index(segment.start)]
        if offset >= segment.end:
            return counted + segment.newlines
        return counted + self._data(segment).count(b"\n", 0, offset - segment.start)

    def line_offset(self, line: int) -> int:
        """The offset of line `line`, from 1; the end if there are fewer lines."""
        if line <= 1:
            return 0
        for segment, counted in zip(self.segments, self._newlines_before, strict=True):
            if counted + segment.newlines < line - 1:
                continue
            data = self._data(segment)
            place = -1
            for _ in range(line - 1 - counted):
                place = data.find(b"\n", place + 1)
            return min(self.size, segment.start + place + 1)
        return self.size

    def arrivals(self, start: int, end: int) -> list[tuple[int, int]]:
        """(offset, milliseconds) of arrivals in between, and of the last one before."""
        within = [s.pk for s in self.segments if s.start < end and s.end > start]
        missing = [pk for pk in within if pk not in self._arrivals]
        if missing:
            self.add_arrivals(arrivals_of(missing))
        pairs = [
            pair
            for pk in within
            for pair in unpack_arrivals(self._arrivals.get(pk, b""))
            if pair[0] < end
        ]
        first = bisect_right(pairs, start, key=lambda pair: pair[0])
        return pairs[max(0, first - 1) :]

    def add_arrivals(self, packed: dict[int, bytes]) -> None:
        self._arrivals |= packed

    def _set_segments(self, segments: Sequence[StreamSegment]) -> None:
        self.segments = [segment for segment in segments if segment.start < self.size]
        self._starts = [segment.start for segment in self.segments]
        counts = (segment.newlines for segment in self.segments)
        self._newlines_before = list(accumulate(counts, initial=0))[:-1]

    def _index(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def _segment_at(self, offset: int) -> StreamSegment:
        index = self._index(offset)
        if index < 0 or offset >= self.segments[index].end:
            detail = (
                f"{self.name}: the database counts {self.size} bytes, and knows of none at {offset}"
            )
            raise SizeMismatch(detail)
        return self.segments[index]

    def _data(self, segment: StreamSegment) -> bytes:
        """All bytes of the segment; the last one read is kept."""
        if self._loaded[0] != segment.pk:
            self._loaded = (segment.pk, self._load(segment))
        return self._loaded[1]

    def _load(self, segment: StreamSegment) -> bytes:
        try:
            return load(segment)
        except ObjectMissing:
            # Merged with its neighbours since the rows were read?
            now = read_segments([self.name])[self.name]
            if any(other.pk == segment.pk for other in now):
                raise
        merged = Stream(self.name, self.size, now)
        return merged.read(segment.start, segment.size)


def load(segment: StreamSegment) -> bytes:
    """The bytes of a segment. Raises SizeMismatch if they are not those that were stored."""
    store = store_by_key(segment.store_key)
    data = store.get(segment.object_name, segment.object_offset, segment.size)
    if len(data) != segment.size:
        detail = f"{segment.object_name}: the database counts {segment.size} bytes, the store has "
        raise SizeMismatch(f"{detail}{len(data)} from {segment.object_offset}")
    if crc32(data) != segment.crc32:
        raise SizeMismatch(f"{segment.object_name}: the store has other bytes than were stored")
    return data


def open_streams(sizes: dict[str, int]) -> dict[str, Stream]:
    """Streams by name, each with the size that the database counts. One query."""
    segments = read_segments(name for name, size in sizes.items() if size)
    return {name: Stream(name, size, segments.get(name, [])) for name, size in sizes.items()}


def read_segments(names: Iterable[str]) -> dict[str, list[StreamSegment]]:
    """The segments of each stream, in order."""
    wanted = list(names)
    found: dict[str, list[StreamSegment]] = {name: [] for name in wanted}
    if not wanted:
        return found
    rows = Segment.objects.filter(stream__in=wanted).order_by("stream", "start")
    for name, *columns in rows.values_list("stream", *COLUMNS):
        found[name].append(StreamSegment(*columns))
    return found


def arrivals_of(segments: Iterable[int]) -> dict[int, bytes]:
    """Packed arrivals by the segment's primary key. One query."""
    rows = Segment.objects.filter(pk__in=list(segments))
    return {pk: bytes(packed) for pk, packed in rows.values_list("pk", "arrivals")}
