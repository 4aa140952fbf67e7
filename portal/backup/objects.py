"""The bytes that the database names: into an archive, and into a store."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from portal.backup.archive import ArchiveReader, ArchiveWriter
from portal.storage.errors import ObjectMissing, StoreError, StoreUnavailable
from portal.storage.models import ByteStore, Segment
from portal.storage.objects import ObjectStore
from portal.storage.stores import current_store, store_by_key, store_row
from portal.storage.streams import load, read_segments

FOLDER = "objects"
Row = tuple[str, int, int, str, str, int]
COLUMNS = ("stream", "start", "size", "store__key", "object_name", "object_offset")


def named_segments() -> list[Row]:
    """The segments of the database as it is now."""
    return list(Segment.objects.order_by("object_name", "object_offset").values_list(*COLUMNS))


def objects_save(rows: Iterable[Row], archive: ArchiveWriter) -> list[str]:
    """Copy the object of each segment. Returns the names of those that the store does not have.
    Raises StoreUnavailable."""
    by_object: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_object[row[4]].append(row)
    missing = []
    for name, segments in by_object.items():
        try:
            archive.add_bytes(f"{FOLDER}/{name}", b"".join(_parts(segments)))
        except StoreUnavailable:
            raise
        except StoreError:
            missing.append(name)
    return missing


def objects_load(archive: ArchiveReader) -> None:
    """Put the objects into this host's store, and let the rows name that store."""
    store = current_store()
    for member in archive.names(FOLDER):
        _put(store, member.removeprefix(f"{FOLDER}/"), archive.read(member))
    own = store_row(store)
    Segment.objects.exclude(store=own).update(store=own)
    ByteStore.objects.exclude(pk=own.pk).delete()


def _put(store: ObjectStore, name: str, data: bytes) -> None:
    """Names are never used twice, so an object of the same size is the same."""
    try:
        if store.size(name) == len(data):
            return
        store.delete(name)
    except ObjectMissing:
        pass
    store.put(name, data)


def _parts(segments: list[Row]) -> Iterator[bytes]:
    """The bytes of one object, from its first to its last."""
    end = 0
    for stream, start, size, key, name, offset in segments:
        # Zeros stand for bytes that no segment names.
        yield bytes(max(0, offset - end))
        try:
            data = store_by_key(key).get(name, offset, size)
        except ObjectMissing:
            data = b""
        yield data if len(data) == size else _merged(stream, start, size)
        end = offset + size


def _merged(stream: str, start: int, size: int) -> bytes:
    """The same bytes from what the segment was merged into meanwhile. Raises ObjectMissing."""
    end = start + size
    found = [s for s in read_segments([stream]).get(stream, ()) if s.start < end and s.end > start]
    data = b"".join(load(segment) for segment in found)
    first = found[0].start if found else 0
    data = data[start - first : end - first]
    if len(data) != size:
        raise ObjectMissing(stream)
    return data
