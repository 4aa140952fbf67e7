"""One zip of a tree, made while it is sent: neither a file on disk nor all of it in memory."""

from collections.abc import Iterator
from datetime import datetime
from io import RawIOBase
from typing import cast
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from portal.files.models import Tree, TreeEntry
from portal.files.receiving import OBJECT_BYTES
from portal.storage.ranges import range_pieces

# Small pieces, such as the headers of many small files, are sent together.
SENT_BYTES = 64 << 10
FILE_MODE, EXECUTABLE_MODE = 0o100644, 0o100755
# A zip has no earlier time.
FIRST_YEAR = 1980


class _Outlet(RawIOBase):
    """What a ZipFile writes, until it is taken away. It cannot seek."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(cast(bytes, data))
        self._pieces.append(piece)
        self.size += len(piece)
        return len(piece)

    def take(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces, self.size = [], 0
        return data


def zip_pieces(tree: Tree) -> Iterator[bytes]:
    """The archive, in pieces of little more than an object. Raises StoreError. Nothing is
    compressed: what is large is so already, as a rule."""
    outlet = _Outlet()
    with ZipFile(outlet, "w", ZIP_STORED) as archive:
        for entry in tree.entries.select_related("file").order_by("position"):
            with archive.open(_info(entry, tree.created_at), "w", force_zip64=True) as member:
                for piece in range_pieces(entry.file.stream, 0, entry.file.size, OBJECT_BYTES):
                    member.write(piece)
                    if outlet.size >= SENT_BYTES:
                        yield outlet.take()
        if outlet.size >= SENT_BYTES:
            yield outlet.take()
    yield outlet.take()


def _info(entry: TreeEntry, at: datetime) -> ZipInfo:
    time = (max(at.year, FIRST_YEAR), at.month, at.day, at.hour, at.minute, at.second)
    info = ZipInfo(entry.path, time)
    info.external_attr = (EXECUTABLE_MODE if entry.executable else FILE_MODE) << 16
    return info
