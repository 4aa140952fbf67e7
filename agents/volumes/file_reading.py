"""Reads a small file of a volume.

Jobs may write in a volume, so nothing below its folder is trusted: each part of a path is opened in
the folder before it. Links are followed here and not by the kernel, since caches of models consist
of them: a relative one, as long as it stays below the volume's folder.
"""

import errno
import os
import stat

from agents.contract.tunnel import StreamRefusal
from agents.contract.volume_files import MAX_VOLUME_FILE_BYTES
from agents.volumes.folders import FolderRefused

MAX_LINKS, MAX_DEPTH = 8, 64
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe without a writer would block.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ, _SEARCH = 0o4, 0o1
# A name that no file has; what was something else when it was looked at.
_NO_SUCH = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO)


class FileRefused(FolderRefused):
    """The file is not read."""

    def __init__(self, why: StreamRefusal) -> None:
        super().__init__(str(why))
        self.why = why


def read_volume_file(folder: int, path: str, user: int | None) -> bytes:
    """The content of the file at `path` below the opened folder, if a process with this uid and gid
    may read it; `user`: None for the agent's own. Raises FileRefused, OSError."""
    if not _may(os.fstat(folder), user, _SEARCH):
        raise FileRefused(StreamRefusal.FILE_FORBIDDEN)
    inner: list[int] = []
    try:
        file = _opened(folder, inner, path, user)
    except FileNotFoundError as error:
        raise FileRefused(StreamRefusal.FILE_MISSING) from error
    except PermissionError as error:
        raise FileRefused(StreamRefusal.FILE_FORBIDDEN) from error
    except OSError as error:
        if error.errno in _NO_SUCH:
            raise FileRefused(StreamRefusal.FILE_MISSING) from error
        raise
    finally:
        for each in inner:
            os.close(each)
    try:
        _require_file(os.fstat(file), user)
        return _content(file)
    finally:
        os.close(file)


def _opened(folder: int, inner: list[int], path: str, user: int | None) -> int:
    """`inner`: gets the folders on the way that are open. Raises FileRefused, OSError."""
    parts, links = path.split("/")[::-1], 0
    while parts:
        part, here = parts.pop(), inner[-1] if inner else folder
        if part in ("", "."):
            continue
        if part == "..":
            if not inner:
                raise FileRefused(StreamRefusal.NOT_A_FILE)
            os.close(inner.pop())
            continue
        found = os.stat(part, dir_fd=here, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            links, target = links + 1, os.readlink(part, dir_fd=here)
            if links > MAX_LINKS or target.startswith("/"):
                raise FileRefused(StreamRefusal.NOT_A_FILE)
            parts += target.split("/")[::-1]
        elif stat.S_ISDIR(found.st_mode):
            if len(inner) == MAX_DEPTH:
                raise FileRefused(StreamRefusal.NOT_A_FILE)
            inner.append(os.open(part, _PLACE | os.O_DIRECTORY, dir_fd=here))
            if not _may(os.fstat(inner[-1]), user, _SEARCH):
                raise FileRefused(StreamRefusal.FILE_FORBIDDEN)
        elif parts:
            # A file where a folder should be.
            raise FileRefused(StreamRefusal.FILE_MISSING)
        else:
            # Before it is opened, since opening a device may do something.
            _require_file(found, user)
            return os.open(part, _FILE, dir_fd=here)
    raise FileRefused(StreamRefusal.NOT_A_FILE)


def _require_file(found: os.stat_result, user: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise FileRefused(StreamRefusal.NOT_A_FILE)
    if not _may(found, user, _READ):
        raise FileRefused(StreamRefusal.FILE_FORBIDDEN)


def _may(found: os.stat_result, user: int | None, right: int) -> bool:
    """As the kernel decides without access lists; `user` is its only group, too."""
    if not user:
        return True
    mode = found.st_mode
    if found.st_uid == user:
        mode >>= 6
    elif found.st_gid == user:
        mode >>= 3
    return bool(mode & right)


def _content(file: int) -> bytes:
    content = bytearray()
    while piece := os.read(file, MAX_VOLUME_FILE_BYTES + 1 - len(content)):
        content += piece
        if len(content) > MAX_VOLUME_FILE_BYTES:
            raise FileRefused(StreamRefusal.FILE_TOO_LARGE)
    return bytes(content)
