"""A folder of this host as a store: Django's storage, which writes past the page cache on request.

A checkpoint of many GiB is written once and read long after. In the page cache it would push out
the database's pages, and each of its chunks would cost the processor fresh pages: in a virtual
machine ten times what the copy itself costs.
"""

import errno
import fcntl
import os
from pathlib import Path

from django.core.files.base import File
from django.core.files.storage import FileSystemStorage

from portal.storage.whole_content import WholeContent

# Of sizes and of addresses in memory: what the disks of today ask for at most.
BLOCK_BYTES = 4096
FILE_MODE = 0o640
# No O_DIRECT in this file system, or not with this memory.
NOT_DIRECT = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


class FolderStorage(FileSystemStorage):
    """A `memoryview` of memory that begins at a block is written directly, if the file system can.
    Any other bytes are written as Django does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(location=folder, file_permissions_mode=FILE_MODE)

    def _save(self, name: str, content: "File[bytes]") -> str:
        if not isinstance(content, WholeContent) or not isinstance(content.data, memoryview):
            return str(super()._save(name, content))  # type: ignore[misc]  # not in the stubs
        descriptor = _new_file(Path(self.path(name)))
        try:
            _write(descriptor, content.data)
        finally:
            os.close(descriptor)
        return name


def _new_file(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, FILE_MODE)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags, FILE_MODE)
    os.fchmod(descriptor, FILE_MODE)
    return descriptor


def _write(descriptor: int, data: memoryview) -> None:
    """Whole blocks directly, and what is left as usual."""
    done = 0
    if blocks := len(data) // BLOCK_BYTES * BLOCK_BYTES:
        done = _write_directly(descriptor, data[:blocks])
    while done < len(data):
        done += os.write(descriptor, data[done:])


def _write_directly(descriptor: int, data: memoryview) -> int:
    """How many bytes it took: none if it cannot, fewer if the disk is almost full."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
        return os.write(descriptor, data)
    except OSError as error:
        if error.errno not in NOT_DIRECT:
            raise
        return 0
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
