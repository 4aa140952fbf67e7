"""Logs of an older Tessera: one file per replica under `var`, without rows. They are recorded where
they lie when they are first read, so that an upgrade copies nothing."""

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from django.conf import settings

from portal.storage.errors import SizeMismatch, StoreUnavailable
from portal.storage.models import Segment
from portal.storage.segments import SEGMENT_BYTES
from portal.storage.stores import folder_store, store_row
from portal.storage.streams import Stream


def adopt_file(stream: Stream) -> bool:
    """Record the file of this stream as its first segments. Whether there is one on this host.

    Raises SizeMismatch if the file is shorter than what the database counts, and StoreUnavailable
    if it cannot be read.
    """
    end = stream.segments[0].start if stream.segments else stream.size
    path = Path(settings.PLATFORM.var) / file_name(stream.name)
    try:
        return path.exists() and _adopt(stream.name, path, end)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error}") from error


def _adopt(stream: str, path: Path, end: int) -> bool:
    name = file_name(stream)
    if path.stat().st_size < end:
        detail = f"{name}: the database counts {end} bytes, the file has {path.stat().st_size}"
        raise SizeMismatch(detail)
    store = store_row(folder_store())
    rows = [
        Segment(
            stream=stream,
            start=start,
            size=len(data),
            crc32=crc32(data),
            newlines=data.count(b"\n"),
            store=store,
            object_name=name,
            object_offset=start,
        )
        for start, data in _pieces(path, end)
    ]
    # All or none, in one transaction. Another process may adopt the same file at the same time.
    Segment.objects.bulk_create(rows, ignore_conflicts=True)
    return True


def file_name(stream: str) -> str:
    """The file below `var` that an older Tessera wrote."""
    return f"{stream}.log"


def _pieces(path: Path, end: int) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        for start in range(0, end, SEGMENT_BYTES):
            yield start, file.read(min(SEGMENT_BYTES, end - start))
