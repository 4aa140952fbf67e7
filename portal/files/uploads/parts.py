"""What every upload is read as: files with their paths, one after the other, and what is wrong."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from tarfile import TarError
from typing import IO, Protocol
from zipfile import BadZipFile

from agents.contract.errors import ContractError
from agents.contract.file_transfer import FileContent, check_tree_path
from agents.contract.message import Message
from portal.error_codes import ErrorCode
from portal.errors import Refused

MIB = 1 << 20
# Of one upload: what is sent, and what is in it. Larger code goes with `tessera submit --sync`.
MAX_UPLOAD_BYTES = 128 * MIB
# Entries of an archive, with folders and what is left out.
MAX_ENTRIES = 50_000
PIECE_BYTES = 1 << 20
# What the readers of archives raise for a damaged one.
PROBLEMS = (
    *(BadZipFile, TarError, zlib.error, struct.error),
    *(OSError, EOFError, ValueError, NotImplementedError, RecursionError),
)
UNREADABLE = "The archive is damaged, or neither a zip nor a .tar.gz. Make it again"


class Source(Protocol):
    """Bytes of one file, which can be read once, before the next file is asked for."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class UploadPart:
    """A file of an upload."""

    path: str
    source: Source
    executable: bool = False
    known_content: FileContent | None = None
    """Its content, if its bytes are not sent, as the project may have them."""

    def pieces(self, size: int = PIECE_BYTES) -> Iterator[bytes]:
        """All bytes, in pieces of that size; the last one may be shorter."""
        while piece := self._piece(size):
            yield piece

    def _piece(self, size: int) -> bytes:
        """A source may give less than it is asked for. Raises Refused."""
        found = b""
        try:
            while len(found) < size and (data := self.source.read(size - len(found))):
                found = found + data if found else data
        except PROBLEMS:
            raise refused(UNREADABLE) from None
        return found


@dataclass(slots=True)
class LeftOut:
    """Links, devices and the like: how many there are, and the first of them."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, path: str) -> None:
        self.count += 1
        if len(self.examples) < 3:
            self.examples.append(shown_path(path))


class Upload(Protocol):
    """Files that a browser sent."""

    has_folder: bool
    """Its files may lie in one folder, which is left out of their paths."""

    @property
    def sent_bytes(self) -> int:
        """As they were sent: of an archive, its size."""

    def parts(self, left_out: LeftOut) -> Iterator[UploadPart]:
        """Its files, each time from the first on. Raises Refused."""


@dataclass(slots=True)
class Archive:
    """One file that holds all others, often in one folder."""

    file: IO[bytes]
    sent_bytes: int
    has_folder: bool = True


class BytesMissing(Refused):
    """The project lacks files of a folder whose bytes were not sent."""

    def __init__(self, paths: list[str]) -> None:
        sentence = Message(
            "%(count)s files of the tree have not arrived, such as %(path)s. Send them first",
            count=len(paths),
            path=shown_path(min(paths)),
        )
        super().__init__(ErrorCode.FILE_INCOMPLETE, sentence, "code")
        self.paths = paths


def refused(message: Message | str) -> Refused:
    """What is wrong with an upload, at the field of the form."""
    return Refused(ErrorCode.INVALID_FIELD, message, "code")


def require_path(path: str) -> None:
    """Raises Refused for a path that no tree may have: absolute, with `..`, too long, not UTF-8."""
    try:
        check_tree_path(path)
    except ContractError as error:
        sentence = Message("A path cannot be stored: %(problem)s", problem=error.sentence)
        raise refused(sentence) from error


def require_entries(count: int) -> None:
    """Raises Refused for an archive of too many entries."""
    if count > MAX_ENTRIES:
        sentence = Message(
            "The archive has more than %(most)s entries. Send only what the job needs",
            most=f"{MAX_ENTRIES:,}",
        )
        raise refused(sentence)


def shown_path(path: str) -> str:
    """A path that is told, whatever is in it."""
    return ascii(path[:64])
