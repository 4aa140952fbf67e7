"""Files as a browser sends them, in one temporary file; and which of them are an archive."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import IO, cast

from agents.contract.file_transfer import MAX_FILE_BYTES, SHA256_PATTERN, FileContent
from agents.contract.message import Message
from portal.files.uploads.parts import BytesMissing, LeftOut, Upload, UploadPart, refused
from portal.files.uploads.tar_archive import TarUpload
from portal.files.uploads.zip_archive import ZipUpload

ZIP_NAMES, TAR_NAMES = (".zip",), (".tar.gz", ".tgz", ".tar")
# The paths of as many files as a tree has.
MAX_MANIFEST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class SentFile:
    """One file: `size` bytes of `spool` from `start` on."""

    name: str
    spool: IO[bytes]
    start: int
    size: int


class FileSlice:
    """One file in the temporary file, with a position of its own."""

    def __init__(self, file: SentFile) -> None:
        self._file = file
        self._position = 0

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._file.size - self._position)
        self._file.spool.seek(self._file.start + self._position)
        data = self._file.spool.read(left if size < 0 else min(size, left))
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._position, self._file.size)[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def seekable(self) -> bool:
        return True


@dataclass(slots=True)
class PlainUpload:
    """Files that were chosen one by one."""

    files: Sequence[SentFile]
    has_folder: bool = False

    @property
    def sent_bytes(self) -> int:
        return sum(file.size for file in self.files)

    def parts(self, left_out: LeftOut) -> Iterator[UploadPart]:
        for file in self.files:
            yield UploadPart(file.name, FileSlice(file))


@dataclass(slots=True)
class FolderUpload:
    """The files of a folder: their paths and contents, and the bytes of some of them."""

    listed: Sequence[tuple[str, FileContent | None]]
    files: Mapping[int, SentFile]
    """By their number in the list."""
    has_folder: bool = True

    @property
    def sent_bytes(self) -> int:
        return sum(file.size for file in self.files.values())

    def parts(self, left_out: LeftOut) -> Iterator[UploadPart]:
        """Raises Refused for a file of which there is neither content nor bytes."""
        for number, (path, content) in enumerate(self.listed):
            if file := self.files.get(number):
                yield UploadPart(path, FileSlice(file))
            elif content:
                yield UploadPart(path, BytesIO(), known_content=content)
            else:
                raise BytesMissing([path])


def folder_upload(manifest: SentFile, files: Sequence[SentFile]) -> FolderUpload:
    """`manifest`: JSON, a list of paths with size and SHA-256 (or none); the name of each file is
    its number in that list. Raises Refused."""
    try:
        rows = json.loads(FileSlice(manifest).read(MAX_MANIFEST_BYTES))
        listed = [(str(path), _known(str(sha256), int(size))) for path, size, sha256 in rows]
        numbered = {int(file.name): file for file in files}
    except (ValueError, TypeError, RecursionError):
        raise refused("The list of the folder's files cannot be read. Choose it again") from None
    return FolderUpload(listed, numbered)


def _known(sha256: str, size: int) -> FileContent | None:
    """Raises ValueError."""
    if not sha256:
        return None
    if not re.fullmatch(SHA256_PATTERN, sha256) or not 0 <= size <= MAX_FILE_BYTES:
        raise ValueError(sha256)
    return FileContent(sha256, size)


def files_upload(files: Sequence[SentFile]) -> Upload:
    """Files that were chosen; a single archive is read as what is in it. Raises Refused."""
    archives = [file.name for file in files if file.name.lower().endswith(ZIP_NAMES + TAR_NAMES)]
    if archives and len(files) > 1:
        sentence = Message(
            "Choose one archive alone, or files: %(name)s is beside others", name=archives[0]
        )
        raise refused(sentence)
    (file, *_) = files
    if archives and file.name.lower().endswith(ZIP_NAMES):
        return ZipUpload(as_file(file), file.size)
    if archives:
        return TarUpload(as_file(file), file.size)
    return PlainUpload(files)


def as_file(file: SentFile) -> IO[bytes]:
    return cast(IO[bytes], FileSlice(file))
