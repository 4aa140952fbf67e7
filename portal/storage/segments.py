"""Writes a stream: uploads bytes as objects, records them as segments, merges small ones.

An upload happens outside of any transaction, because a store may answer late. Bytes count once
their segments are recorded, in the caller's transaction; objects that were never recorded are
removed with the stream.
"""

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from zlib import crc32

from django.db import transaction
from django.db.models import Q

from agents.contract.calls import MAX_LOG_CHUNK_BYTES
from portal.storage.arrivals import pack_arrivals, unpack_arrivals
from portal.storage.errors import StoreError
from portal.storage.models import ByteStore, Segment
from portal.storage.objects import ObjectStore
from portal.storage.stores import current_store, reachable_stores, store_by_key, store_row
from portal.storage.streams import COLUMNS, StreamSegment, load

# A segment has at most this many bytes; so one read loads at most this much too much.
SEGMENT_BYTES = 1 << 20
# When this many segments below one of these sizes end a stream, the oldest of them are merged. A
# full chunk of an agent is large enough: merging those of a fast log would double its requests.
MERGE_COUNT = 32
MERGE_BELOW = (4 << 10, 64 << 10, MAX_LOG_CHUNK_BYTES)
# The prefix of streams that are to be removed.
FORGOTTEN = "forgotten/"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """Bytes that are in a store and not yet part of the stream."""

    store: ObjectStore
    object_name: str
    size: int
    crc32: int
    newlines: int


def upload(stream: str, data: bytes) -> list[UploadedPart]:
    """Store bytes for the stream, under new names, and count their lines. Raises
    StoreUnavailable."""
    parts = []
    for start in range(0, len(data), SEGMENT_BYTES):
        piece = data[start : start + SEGMENT_BYTES]
        parts.append(_upload(stream, piece, piece.count(b"\n")))
    return parts


def upload_content(stream: str, data: bytes | memoryview, object_bytes: int) -> list[UploadedPart]:
    """The same for a stream that nobody reads by lines."""
    starts = range(0, len(data), object_bytes)
    return [_upload(stream, data[start : start + object_bytes], 0) for start in starts]


def _upload(stream: str, piece: bytes | memoryview, newlines: int) -> UploadedPart:
    store, name = current_store(), f"{stream}/{uuid.uuid4().hex}"
    store.put(name, piece)
    return UploadedPart(store, name, len(piece), crc32(piece), newlines)


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """Parts that are to be the end of a stream, from `offset` on."""

    stream: str
    offset: int
    parts: Sequence[UploadedPart]


def record(ends: Sequence[StreamEnd], *, is_append: bool = False) -> None:
    """Make them the ends of their streams, with three statements; what followed is dropped. The
    caller holds the transaction and locks that keep others from writing these streams.

    `is_append`: nothing can follow, as nothing was ever recorded that does not count."""
    if not is_append:
        behind = [Q(stream=end.stream, start__gte=end.offset) for end in ends]
        Segment.objects.filter(reduce(or_, behind)).delete()
    at, rows = time.time_ns() // 1_000_000, dict[ObjectStore, ByteStore]()
    segments = []
    for end in ends:
        offset = end.offset
        for part in end.parts:
            row = rows.get(part.store) or rows.setdefault(part.store, store_row(part.store))
            segment = Segment(
                stream=end.stream,
                start=offset,
                size=part.size,
                crc32=part.crc32,
                newlines=part.newlines,
                arrivals=pack_arrivals([(offset, at)]),
                store=row,
                object_name=part.object_name,
            )
            segments.append(segment)
            offset += part.size
    Segment.objects.bulk_create(segments)


def discard(parts: Sequence[UploadedPart]) -> None:
    """Remove parts that were not recorded, as far as the store answers."""
    _delete_objects([(part.store, part.object_name) for part in parts])


def merge_end(stream: str) -> None:
    """Merge small segments at the end of the stream, if there are many. A failure leaves it as it
    is; a later call tries again."""
    rows = Segment.objects.filter(stream=stream).order_by("-start")
    newest = rows.values_list(*COLUMNS)[: 4 * MERGE_COUNT]
    run = _to_merge([StreamSegment(*columns) for columns in newest])
    if run:
        try:
            _merge(stream, run)
        except StoreError as error:
            log.warning("segments of %s stay apart for now: %s", stream, error)


def _to_merge(newest_first: list[StreamSegment]) -> list[StreamSegment]:
    for below in MERGE_BELOW:
        run: list[StreamSegment] = []
        for segment in newest_first:
            # Bytes before a gap must not move behind it.
            if segment.size >= below or (run and run[-1].start != segment.end):
                break
            run.append(segment)
        if len(run) >= MERGE_COUNT:
            return _first_segment_of(run[::-1])
    return []


def _first_segment_of(run: list[StreamSegment]) -> list[StreamSegment]:
    """As many of the oldest as make one segment."""
    size = 0
    for count, segment in enumerate(run):
        size += segment.size
        if size > SEGMENT_BYTES:
            return run[:count]
    return run


def _merge(stream: str, run: list[StreamSegment]) -> None:
    # Checked against the rows: bytes that the store has changed stay an error.
    data = b"".join(load(segment) for segment in run)
    store = current_store()
    name = f"{stream}/{uuid.uuid4().hex}"
    store.put(name, data)
    with transaction.atomic():
        keys = [segment.pk for segment in run]
        # The stream, too: it may have been forgotten meanwhile.
        rows = Segment.objects.filter(pk__in=keys, stream=stream).order_by("pk")
        packed = [bytes(row.arrivals) for row in rows.select_for_update()]
        is_unchanged = len(packed) == len(run)
        if is_unchanged:
            Segment.objects.filter(pk__in=keys).delete()
            Segment.objects.create(
                stream=stream,
                start=run[0].start,
                size=len(data),
                crc32=crc32(data),
                newlines=data.count(b"\n"),
                arrivals=pack_arrivals(pair for pairs in packed for pair in unpack_arrivals(pairs)),
                store=store_row(store),
                object_name=name,
            )
    if not is_unchanged:
        _delete_objects([(store, name)])
        return
    # A file of an older Tessera is one object of several segments.
    objects = {segment.object_name: segment.store_key for segment in run}
    rows = Segment.objects.filter(stream=stream, object_name__in=list(objects))
    for name in set(rows.values_list("object_name", flat=True)):
        del objects[name]
    _delete_objects([(store_by_key(key), name) for name, key in objects.items()])


def _delete_objects(objects: Sequence[tuple[ObjectStore, str]]) -> None:
    for store, name in objects:
        try:
            store.delete(name)
        except StoreError as error:
            log.warning("an object that is no longer used stays in its store: %s", error)


def forget_stream(stream: str) -> None:
    """Make the stream unknown, in the caller's transaction; `delete_forgotten` removes its bytes
    later, also after a crash."""
    Segment.objects.filter(stream=stream).update(stream=FORGOTTEN + stream)


def delete_forgotten(limit: int, seconds: float = 20) -> int:
    """Remove the bytes of at most `limit` forgotten streams, in the stores that this process can
    reach, and begin with no other one after `seconds`. How many. Raises StoreUnavailable."""
    end = time.monotonic() + seconds
    reachable = reachable_stores()
    rows = Segment.objects.filter(stream__startswith=FORGOTTEN, store__key__in=list(reachable))
    streams = list(rows.order_by("stream").values_list("stream", flat=True).distinct()[:limit])
    for number, stream in enumerate(streams):
        if time.monotonic() > end:
            return number
        for key, store in reachable.items():
            own = rows.filter(stream=stream, store__key=key)
            for name in set(own.values_list("object_name", flat=True)):
                store.delete(name)
            # Objects that were uploaded and never recorded.
            for name in store.names(stream.removeprefix(FORGOTTEN)):
                store.delete(name)
            own.delete()
    return len(streams)
