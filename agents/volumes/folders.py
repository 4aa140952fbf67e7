"""Opens the folder of a volume below its root, without following links.

Jobs may write below a root, so whatever is found there may have been put there to lead elsewhere.
Each part of the path is opened in the folder before it. The engine is given the path and not the
opened folder, so nobody but root and the agent may be able to change what lies on the way.
"""

import os
import stat
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderRefused(Exception):
    """The folder cannot be given to a job; its text says why and what to do."""


def open_folder(root: str, subpath: str) -> tuple[int, str]:
    """An O_PATH descriptor of the folder, and its path. Raises FolderRefused."""
    # Links in the path of the root are the owner's.
    at = os.path.realpath(root)
    try:
        opened = os.open(at, _FOLDER)
    except OSError as error:
        raise FolderRefused(_absence(at, error)) from error
    for part in subpath.split("/") if subpath else ():
        inside, at = opened, f"{at}/{part}"
        try:
            opened = _open_part(inside, part, at)
            _require_kept_way(inside, at)
        except FolderRefused:
            if opened != inside:
                os.close(opened)
            raise
        finally:
            os.close(inside)
    return opened, at


def require_mounted(root: str) -> None:
    """Raises FolderRefused if nothing is mounted there."""
    if not os.path.ismount(os.path.realpath(root)):
        raise FolderRefused(f"nothing is mounted at {root}: mount it again")


def require_one_file_system(folder: str) -> None:
    """Raises FolderRefused if another file system is mounted inside: on it, an engine may allow
    writes although the volume is read-only."""
    for line in MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
        place = _unescaped(line.split(" ")[4])
        if place.startswith(f"{folder}/"):
            raise FolderRefused(
                f"{place} is a file system of its own: offer it as a root of its own"
            )


def _open_part(inside: int, part: str, at: str) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=inside)
    except OSError as error:
        try:
            kind = os.stat(part, dir_fd=inside, follow_symlinks=False).st_mode
        except OSError:
            raise FolderRefused(_absence(at, error)) from error
        if stat.S_ISLNK(kind):
            raise FolderRefused(f"{at} is a link, and links are not followed") from error
        raise FolderRefused(_absence(at, error)) from error


def _require_kept_way(folder: int, at: str) -> None:
    """Only root and the agent may put something else at `at`."""
    found = os.fstat(folder)
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        outer = Path(at).parent
        raise FolderRefused(
            f"others may change {outer}, and so what {at} leads to: chown root {outer} and "
            f"chmod go-w {outer}"
        )


def _absence(at: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no folder {at}"
    if isinstance(error, NotADirectoryError):
        return f"{at} is not a folder"
    return f"{at} cannot be opened: {error.strerror}"


def _unescaped(place: str) -> str:
    """proc(5): blanks and backslashes are octal there."""
    for code in ("040", "011", "012", "134"):
        place = place.replace(f"\\{code}", chr(int(code, 8)))
    return place
