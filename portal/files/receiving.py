"""Receives contents, from nodes and people alike: appended by offset, compared at the end.

The bytes go to the store between two short transactions: a store that answers late holds no row.
"""

import hashlib
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from agents.contract.file_transfer import FileContent, FileProgress
from agents.contract.message import Message
from portal.accounts.models import Project
from portal.database.kept_queries import KeptSelect, KeptUpdate
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.limits import bytes_reserve, bytes_return
from portal.files.models import StoredFile
from portal.files.running_hashes import running_hashes
from portal.storage.ranges import range_pieces
from portal.storage.segments import (
    StreamEnd,
    UploadedPart,
    discard,
    forget_stream,
    record,
    upload_content,
)

# A chunk of an agent is one object.
OBJECT_BYTES = 4 << 20
# What no tree has by then is removed: half a transfer, or a content that was never committed.
UNUSED_HOURS = 24
# A comparison that has not come further for so long has died with its process.
CHECK_DEAD_SECONDS = 60
CHECK_NOTED_SECONDS = 10
# Both are asked for each chunk.
CONTENT = KeptSelect(
    lambda project, sha256, size: StoredFile.objects.filter(
        project=project, sha256=sha256, size=size
    ),
    Project._meta.pk,
    StoredFile._meta.get_field("sha256"),
    StoredFile._meta.get_field("size"),
)
RECEIVED = KeptUpdate(
    lambda pk, offset, *_: StoredFile.objects.filter(pk=pk, received_bytes=offset),
    lambda pk, offset, received, removable_at: {
        "received_bytes": received,
        "removable_at": removable_at,
    },
    StoredFile._meta.pk,
    StoredFile._meta.get_field("received_bytes"),
    StoredFile._meta.get_field("received_bytes"),
    StoredFile._meta.get_field("removable_at"),
)


@dataclass(frozen=True, slots=True)
class FileChunk:
    """Bytes of a content from `offset` on."""

    project_id: int
    content: FileContent
    offset: int
    data: bytes | memoryview
    """A `memoryview` lies in memory that is used again after the call."""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk whose bytes are in the store and do not count yet."""

    chunk: FileChunk
    row: StoredFile
    parts: list[UploadedPart]


class WrongOffset(Refused):
    """The chunk does not continue the file."""

    def __init__(self, expected_offset: int) -> None:
        sentence = Message("The file goes on at %(offset)s", offset=expected_offset)
        super().__init__(ErrorCode.FILE_OFFSET, sentence, "offset")
        self.expected_offset = expected_offset


def files_received(project_id: int, contents: tuple[FileContent, ...]) -> tuple[FileProgress, ...]:
    """What the project has of each of these, in their order. One query."""
    found = {
        (row.sha256, row.size): row
        for row in StoredFile.objects.filter(
            project=project_id, sha256__in={one.sha256 for one in contents}
        )
    }
    rows = [(one.sha256, found.get((one.sha256, one.size))) for one in contents]
    return tuple(file_progress(row) if row else FileProgress(name, 0, False) for name, row in rows)


def chunk_append(chunk: FileChunk) -> StoredFile:
    """Append the chunk; a repeated one changes nothing. After the last one comes `file_check`.

    Raises Refused(file_offset, invalid_field, stored_limit) and StoreError.
    """
    row = _row_begin(chunk)
    return row if _is_received(row, chunk) else chunk_count(_stored(row, chunk))


def chunk_store_ahead(chunk: FileChunk) -> StoredChunk | None:
    """Store a chunk while this process stores the one before it; in its turn comes `chunk_count`.
    None if the content has not begun, or has these bytes: then `chunk_append` does it all.

    Raises Refused(invalid_field) and StoreError."""
    row = _row(chunk)
    return _stored(row, chunk) if row and row.received_bytes <= chunk.offset else None


def chunk_count(stored: StoredChunk) -> StoredFile:
    """Count its bytes, if they follow. Raises Refused(file_offset)."""
    row, chunk, parts = stored.row, stored.chunk, stored.parts
    try:
        row, is_used = _record(row, chunk, StreamEnd(row.stream, chunk.offset, parts))
    except Refused:
        # After any other error the bytes may count: a connection can break during the commit.
        discard(parts)
        raise
    if is_used:
        running_hashes.append(row.pk, chunk.offset, chunk.data)
    else:
        discard(parts)
    return row


def unchecked_file(project_id: int, contents: tuple[FileContent, ...]) -> StoredFile | None:
    """One of these whose bytes are all there, and that nobody compares: its process has died."""
    rows = StoredFile.objects.filter(_not_compared(), project=project_id)
    return rows.filter(sha256__in={one.sha256 for one in contents}).first()


def file_check(row: StoredFile) -> FileProgress:
    """Compare the SHA-256 of a content whose bytes are all there, unless another call does so at
    the moment. If it differs, all bytes are forgotten. Raises Refused(file_changed) and StoreError.
    """
    if not is_unchecked(row) or not _check_begin(row.pk):
        return file_progress(row)
    try:
        sha256 = running_hashes.take(row.pk, row.size) or _sha256(row)
    except BaseException:
        StoredFile.objects.filter(pk=row.pk).update(checked_at=None)
        raise
    if sha256 != row.sha256:
        with transaction.atomic():
            contents_forget(StoredFile.objects.filter(pk=row.pk, is_complete=False).lock_rows())
        sentence = "What arrived has another SHA-256. Read the file again, and send all of it"
        raise Refused(ErrorCode.FILE_CHANGED, sentence)
    StoredFile.objects.filter(pk=row.pk).update(is_complete=True, checked_at=None)
    row.is_complete = True
    return file_progress(row)


def is_unchecked(row: StoredFile) -> bool:
    """All bytes are there, and not compared yet."""
    return not row.is_complete and row.received_bytes == row.size


def file_progress(row: StoredFile) -> FileProgress:
    return FileProgress(row.sha256, row.received_bytes, row.is_complete)


def contents_forget(rows: list[StoredFile]) -> None:
    """Remove contents that no tree has, in the caller's transaction; their rows are locked."""
    for row in sorted(rows, key=lambda row: row.project_id):
        forget_stream(row.stream)
        bytes_return(row.project_id, row.size)
    StoredFile.objects.filter(pk__in=[row.pk for row in rows]).delete()


def _row_begin(chunk: FileChunk) -> StoredFile:
    """The row of the content. At its first chunk it is made, and its bytes are reserved."""
    content, row = chunk.content, _row(chunk)
    if row is None:
        if chunk.offset:
            raise WrongOffset(0)
        try:
            with transaction.atomic():
                bytes_reserve(chunk.project_id, content.size)
                row = StoredFile.objects.create(
                    project_id=chunk.project_id,
                    sha256=content.sha256,
                    size=content.size,
                    stream=f"files/{chunk.project_id}/{uuid.uuid4().hex}",
                    removable_at=_unused_end(),
                )
        except IntegrityError:
            # Another call was first, and it may have been forgotten since.
            row = _row(chunk)
            if row is None:
                raise WrongOffset(0) from None
    return row


def _row(chunk: FileChunk) -> StoredFile | None:
    """The row of the content, if it has one. Raises Refused for bytes beyond its end."""
    content = chunk.content
    if chunk.offset + len(chunk.data) > content.size:
        sentence = Message("The file has only %(size)s bytes", size=content.size)
        raise Refused(ErrorCode.INVALID_FIELD, sentence, "offset")
    return next(iter(CONTENT.rows(chunk.project_id, content.sha256, content.size)), None)


def _stored(row: StoredFile, chunk: FileChunk) -> StoredChunk:
    return StoredChunk(chunk, row, upload_content(row.stream, chunk.data, OBJECT_BYTES))


def _is_received(row: StoredFile, chunk: FileChunk) -> bool:
    """The bytes have arrived before. Raises WrongOffset where they do not follow."""
    if chunk.offset + len(chunk.data) <= row.received_bytes:
        return True
    if chunk.offset != row.received_bytes:
        raise WrongOffset(row.received_bytes)
    return False


def _record(row: StoredFile, chunk: FileChunk, end: StreamEnd) -> tuple[StoredFile, bool]:
    """Count the bytes, unless they have arrived meanwhile."""
    received, removable_at = chunk.offset + len(chunk.data), _unused_end()
    with transaction.atomic():
        if RECEIVED.write(row.pk, chunk.offset, received, removable_at):
            record([end], is_append=True)
            row.received_bytes, row.removable_at = received, removable_at
            return row, True
    now = StoredFile.objects.filter(pk=row.pk).first()
    if now is None:
        # It was forgotten: another sender's bytes had another SHA-256.
        raise WrongOffset(0)
    _is_received(now, chunk)
    return now, False


def _check_begin(pk: int) -> bool:
    """Only one call compares at a time; one that died is not waited for."""
    rows = StoredFile.objects.filter(_not_compared(), pk=pk)
    return bool(rows.update(checked_at=timezone.now()))


def _not_compared() -> Q:
    dead = Q(checked_at__lt=timezone.now() - timedelta(seconds=CHECK_DEAD_SECONDS))
    is_free = Q(checked_at__isnull=True) | dead
    return is_free & Q(is_complete=False, received_bytes=F("size"))


def _sha256(row: StoredFile) -> str:
    digest, noted = hashlib.sha256(), timezone.now()
    for piece in range_pieces(row.stream, 0, row.size, OBJECT_BYTES):
        digest.update(piece)
        if (now := timezone.now()) > noted + timedelta(seconds=CHECK_NOTED_SECONDS):
            noted = now
            StoredFile.objects.filter(pk=row.pk).update(checked_at=now)
    return digest.hexdigest()


def _unused_end() -> datetime:
    return timezone.now() + timedelta(hours=UNUSED_HOURS)
