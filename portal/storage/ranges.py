"""Reads a part of a long stream: only the rows of that part, one object in memory at a time."""

from collections.abc import Iterator
from itertools import pairwise

from portal.storage.errors import SizeMismatch
from portal.storage.models import Segment
from portal.storage.streams import COLUMNS, StreamSegment, load

# Rows of one query.
ROWS = 256


def range_pieces(stream: str, start: int, end: int, object_bytes: int) -> Iterator[bytes]:
    """The bytes from `start` to `end`, in pieces of at most `object_bytes`, which is the largest
    size that the stream's segments have. Raises StoreError."""
    at = start
    while at < end:
        segments = range_segments(stream, at, end, object_bytes)
        if not segments or segments[0].start > at:
            raise SizeMismatch(f"{stream}: the database knows of no bytes at {at}")
        for one, following in pairwise(segments):
            if one.end != following.start:
                raise SizeMismatch(f"{stream}: the database knows of no bytes at {one.end}")
        for segment in segments:
            yield load(segment)[at - segment.start : end - segment.start]
            at = min(segment.end, end)


def range_segments(stream: str, start: int, end: int, object_bytes: int) -> list[StreamSegment]:
    """The first segments with bytes from `start` to `end`, in order. One query."""
    rows = Segment.objects.filter(stream=stream, start__gt=start - object_bytes, start__lt=end)
    found = [StreamSegment(*row) for row in rows.order_by("start").values_list(*COLUMNS)[:ROWS]]
    return [segment for segment in found if segment.end > start]
