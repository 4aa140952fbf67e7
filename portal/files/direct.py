"""Parts of contents that nodes send to the bucket and fetch there by themselves.

A part counts like a chunk that came through the portal, once it was copied away from where the node
can write, read, and found to have its size; the SHA-256 of all is compared at the end.
"""

import uuid
from zlib import crc32

from agents.contract.direct_transfer import MAX_PARTS, PART_BYTES, ContentPart
from agents.contract.file_transfer import FileContent
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.models import StoredFile
from portal.files.receiving import (
    CONTENT,
    OBJECT_BYTES,
    FileChunk,
    StoredChunk,
    chunk_count,
)
from portal.storage.direct import DirectBucket, direct_bucket
from portal.storage.errors import ObjectMissing, SizeMismatch
from portal.storage.ranges import range_segments
from portal.storage.segments import UploadedPart, discard


def parts_count(*, project_id: int, content: FileContent, end: int) -> StoredFile:
    """Count the parts up to `end` that have arrived in the bucket, at most those of one answer. One
    that is not there, or has another size, ends it. Its first part came through the portal.

    Raises Refused(file_incomplete) for a content that has not begun, and StoreError."""
    row = _begun(project_id, content)
    bucket = direct_bucket()
    for _ in range(MAX_PARTS):
        if bucket is None or row.received_bytes >= min(end, row.size):
            break
        try:
            row = _count(bucket, row, content)
        except (ObjectMissing, SizeMismatch):
            now = _begun(project_id, content)
            if now.received_bytes <= row.received_bytes:
                break
            # Another call has counted it, and removed what arrived.
            row = now
    return row


def _begun(project_id: int, content: FileContent) -> StoredFile:
    """Its row as it is now. Raises Refused."""
    row = next(iter(CONTENT.rows(project_id, content.sha256, content.size)), None)
    if row is None or not row.received_bytes:
        sentence = "The first part of a file goes through the portal"
        raise Refused(ErrorCode.FILE_INCOMPLETE, sentence)
    return row


def parts_to_send(row: StoredFile) -> tuple[ContentPart, ...]:
    """The next parts of a content, each with the URL that takes it; none where nodes send all bytes
    to the portal."""
    bucket = direct_bucket()
    if bucket is None or row.is_complete:
        return ()
    offsets = range(row.received_bytes, row.size, PART_BYTES)[:MAX_PARTS]
    sizes = [min(PART_BYTES, row.size - offset) for offset in offsets]
    return tuple(
        ContentPart(offset, size, bucket.put_url(_arrival(row, offset), size))
        for offset, size in zip(offsets, sizes, strict=True)
    )


def parts_to_fetch(row: StoredFile, offset: int) -> tuple[ContentPart, ...]:
    """The parts of a content from `offset` on, each with the URL that has it, as far as they lie in
    the bucket."""
    bucket = direct_bucket()
    if bucket is None:
        return ()
    parts: list[ContentPart] = []
    for segment in range_segments(row.stream, offset, row.size, OBJECT_BYTES)[:MAX_PARTS]:
        is_whole_object = segment.store_key == bucket.store.key and not segment.object_offset
        if not is_whole_object or segment.start != offset:
            break
        parts.append(ContentPart(offset, segment.size, bucket.get_url(segment.object_name)))
        offset = segment.end
    return tuple(parts)


def _count(bucket: DirectBucket, row: StoredFile, content: FileContent) -> StoredFile:
    """The next part. Raises ObjectMissing, and SizeMismatch, where it is not as it has to be."""
    offset = row.received_bytes
    size = min(PART_BYTES, row.size - offset)
    arrival, name = _arrival(row, offset), f"{row.stream}/{uuid.uuid4().hex}"
    bucket.store.copy(arrival, name)
    part = UploadedPart(bucket.store, name, size, 0, 0)
    try:
        # Asked first: what is too large is not read.
        if bucket.store.size(name) != size:
            raise SizeMismatch(f"{arrival} has not the {size} bytes of its part")
        data = bucket.store.get(name, 0, size)
    except Exception:
        discard([part])
        raise
    part = UploadedPart(bucket.store, name, size, crc32(data), 0)
    chunk = FileChunk(row.project_id, content, offset, data)
    row = chunk_count(StoredChunk(chunk, row, [part]))
    discard([UploadedPart(bucket.store, arrival, size, 0, 0)])
    return row


def _arrival(row: StoredFile, offset: int) -> str:
    """Where a node writes a part; removed with the stream if it never counts."""
    return f"{row.stream}/arriving-{offset}"
