"""A zip, read member by member. Nothing is unpacked to a disk, so no path leads anywhere."""

import stat
import struct
from collections.abc import Iterator
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from agents.contract.message import Message
from portal.files.uploads.parts import (
    PROBLEMS,
    UNREADABLE,
    Archive,
    LeftOut,
    UploadPart,
    refused,
    require_entries,
    shown_path,
)

ENCRYPTED, UTF8 = 0x1, 0x800
# The record at the end of a zip, and the head of each entry of its directory.
END = struct.Struct("<4s4H2LH")
END_MARK, ENTRY_MARK = b"PK\x05\x06", b"PK\x01\x02"
MAX_COMMENT_BYTES = 0xFFFF
ENTRY_HEAD_BYTES = 46


class ZipUpload(Archive):
    def parts(self, left_out: LeftOut) -> Iterator[UploadPart]:
        """Raises Refused."""
        require_entries(_entry_count(self.file))
        try:
            with ZipFile(self.file) as archive:
                for info in archive.infolist():
                    if part := _part(archive, info, left_out):
                        yield part
        except UnicodeDecodeError:
            raise refused("The zip has a name that is not UTF-8. Rename that file") from None
        except PROBLEMS:
            raise refused(UNREADABLE) from None


def _part(archive: ZipFile, info: ZipInfo, left_out: LeftOut) -> UploadPart | None:
    path = _path(info)
    mode = info.external_attr >> 16
    if info.is_dir() or stat.S_ISDIR(mode):
        return None
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        left_out.add(path)
        return None
    if info.flag_bits & ENCRYPTED:
        raise refused("The zip has a password. Make one without")
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise refused("The zip is packed in an unusual way. Make it again with Deflate")
    return UploadPart(path, archive.open(info), bool(mode & stat.S_IXUSR))


def _path(info: ZipInfo) -> str:
    """Some programs write UTF-8 and do not say so; what is neither was written by an old one."""
    name = info.filename
    if info.flag_bits & UTF8 or name.isascii():
        return name
    try:
        return name.encode("cp437").decode()
    except UnicodeError:
        sentence = Message(
            "%(name)s has a name that is not UTF-8. Rename it", name=shown_path(name)
        )
        raise refused(sentence) from None


def _entry_count(file: IO[bytes]) -> int:
    """How many entries its directory has, counted before it is read into memory. What cannot be
    read here has none: ZipFile will say so."""
    size = file.seek(0, 2)
    file.seek(max(0, size - END.size - MAX_COMMENT_BYTES))
    tail = file.read()
    # ZipFile looks at the very end first.
    at = len(tail) - END.size
    if at < 0 or tail[at : at + 4] != END_MARK or tail[-2:] != b"\0\0":
        at = tail.rfind(END_MARK)
    if at < 0 or len(tail) - at < END.size:
        return 0
    *_, directory_bytes, _, _ = END.unpack_from(tail, at)
    position = size - len(tail) + at - directory_bytes
    if position < 0:
        raise refused(UNREADABLE)
    count = 0
    while directory_bytes >= ENTRY_HEAD_BYTES:
        file.seek(position)
        head = file.read(ENTRY_HEAD_BYTES)
        if len(head) < ENTRY_HEAD_BYTES or head[:4] != ENTRY_MARK:
            break
        length = ENTRY_HEAD_BYTES + sum(struct.unpack_from("<3H", head, 28))
        position, directory_bytes, count = position + length, directory_bytes - length, count + 1
        require_entries(count)
    return count
