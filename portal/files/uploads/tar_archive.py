"""A .tar.gz or .tar, read from its beginning to its end. Nothing is unpacked to a disk."""

import gzip
import io
import tarfile
from collections.abc import Iterator
from typing import IO

from agents.contract.message import Message
from portal.files.uploads.parts import (
    MAX_UPLOAD_BYTES,
    MIB,
    PIECE_BYTES,
    PROBLEMS,
    UNREADABLE,
    Archive,
    LeftOut,
    UploadPart,
    refused,
    require_entries,
)

# Of names and the like before one member, which tarfile reads into memory.
MAX_HEAD_BYTES = 1 << 18
# What is left out is not read, and must not be endless either.
MAX_UNPACKED_BYTES = 4 * MAX_UPLOAD_BYTES
FILE_TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE)


class TarUpload(Archive):
    def parts(self, left_out: LeftOut) -> Iterator[UploadPart]:
        """Raises Refused."""
        self.file.seek(0)
        is_packed = self.file.read(2) == b"\x1f\x8b"
        self.file.seek(0)
        source = gzip.GzipFile(fileobj=self.file) if is_packed else self.file
        way = _OneWay(source)  # type: ignore[arg-type]
        try:
            with tarfile.open(fileobj=way, mode="r:", encoding="utf-8") as archive:
                yield from _parts(archive, way, left_out)
        except PROBLEMS:
            raise refused(UNREADABLE) from None


def _parts(archive: tarfile.TarFile, way: "_OneWay", left_out: LeftOut) -> Iterator[UploadPart]:
    count = 0
    while True:
        way.head_bytes = MAX_HEAD_BYTES
        member = archive.next()
        if member is None:
            return
        count += 1
        require_entries(count)
        # tarfile keeps all members.
        archive.members.clear()  # type: ignore[attr-defined]
        path = member.name.removeprefix("./")
        if member.isdir():
            continue
        if member.type not in FILE_TYPES or member.issparse():
            left_out.add(path)
            continue
        way.head_bytes = None
        if source := archive.extractfile(member):
            yield UploadPart(path, source, bool(member.mode & 0o100))


class _OneWay(io.RawIOBase):
    """A file that is read forwards only, in pieces of a bounded size, up to a bounded end. One byte
    back is allowed, as tarfile takes it to see that a member is whole."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._position = 0
        self._last = b""
        self._is_back = False
        self.head_bytes: int | None = MAX_HEAD_BYTES
        """What may be read before the next member; None: its bytes are being read."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position - self._is_back

    def read(self, size: int = -1) -> bytes:
        if self.head_bytes is not None:
            self.head_bytes -= size
        if size < 0 or size > PIECE_BYTES or (self.head_bytes or 0) < 0:
            raise refused("The archive has a name or a note that is too long")
        back = self._last if self._is_back and size else b""
        if back:
            self._is_back = False
        return back + self._forward(size - len(back))

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence or offset < self._position - 1:
            raise tarfile.ReadError("backwards")
        if offset < self._position:
            self._is_back = True
            return offset
        self._is_back = False
        while self._position < offset:
            if not self._forward(min(PIECE_BYTES, offset - self._position)):
                break
        return self._position

    def _forward(self, size: int) -> bytes:
        data = self._source.read(size) if size else b""
        if data:
            self._position += len(data)
            self._last = data[-1:]
        if self._position > MAX_UNPACKED_BYTES:
            most = MAX_UNPACKED_BYTES // MIB
            raise refused(Message("The archive unpacks to more than %(most)s MiB", most=most))
        return data
