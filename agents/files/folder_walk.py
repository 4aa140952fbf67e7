"""Opens the files of a folder that a job wrote, whatever else it put there.

Each part of a path is opened in the folder before it, and never through a link. So nothing outside
of the folder is read, even if the job changes it meanwhile.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agents.contract.errors import ContractError
from agents.contract.file_transfer import MAX_TREE_ENTRIES, check_tree_path

# Folders inside of each other: each is open while those in it are read.
MAX_DEPTH = 64
# Entries of any kind that one walk looks at: a job can make millions.
MAX_ENTRIES = 10 * MAX_TREE_ENTRIES
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe without a writer would block.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A file that says it is so much longer than what it uses is mostly holes.
MAX_HOLLOWNESS, HOLLOW_SLACK_BYTES = 16, 64 << 20
BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file; `descriptor` is closed once the walk goes on."""

    path: str
    descriptor: int
    status: os.stat_result

    @property
    def executable(self) -> bool:
        return bool(self.status.st_mode & stat.S_IXUSR)


def open_file(folder: Path, path: str) -> int:
    """A descriptor of the file at that path of a tree. Raises OSError, also for a link."""
    *parts, name = path.split("/")
    at = os.open(folder, FOLDER_FLAGS)
    try:
        for part in parts:
            inner = os.open(part, FOLDER_FLAGS, dir_fd=at)
            os.close(at)
            at = inner
        return os.open(name, FILE_FLAGS, dir_fd=at)
    finally:
        os.close(at)


@dataclass(slots=True)
class FolderWalk:
    """One walk through a folder."""

    folder: Path
    # Links, devices, sockets, pipes, and files that no tree can hold, counted while it walks.
    left_out: int = 0
    # There are more files than a tree may have, so some were left out that are as good as others.
    is_cut: bool = False
    _taken: int = 0
    _seen: int = 0

    def files(self) -> Iterator[OpenFile]:
        """In the order of their names, at most MAX_TREE_ENTRIES. Raises OSError if the folder
        itself cannot be read."""
        top = os.open(self.folder, FOLDER_FLAGS)
        try:
            yield from self._files(top, "", 1)
        finally:
            os.close(top)

    def _files(self, folder: int, prefix: str, depth: int) -> Iterator[OpenFile]:
        for name, is_folder in self._entries(folder):
            path = f"{prefix}{name}"
            if not _is_possible(path) or (is_folder and depth == MAX_DEPTH):
                self.left_out += 1
                continue
            try:
                descriptor = os.open(name, FOLDER_FLAGS if is_folder else FILE_FLAGS, dir_fd=folder)
            except OSError:
                # A link, a socket, or gone since.
                self.left_out += 1
                continue
            try:
                if is_folder:
                    yield from self._files(descriptor, f"{path}/", depth + 1)
                elif self._takes(status := os.fstat(descriptor)):
                    self._taken += 1
                    yield OpenFile(path, descriptor, status)
                else:
                    self.left_out += 1
            finally:
                os.close(descriptor)

    def _entries(self, folder: int) -> list[tuple[str, bool]]:
        """Names, and whether each is a folder."""
        with os.scandir(folder) as entries:
            some = list(islice(entries, MAX_ENTRIES - self._seen + 1))
        self._seen += len(some)
        if self._seen > MAX_ENTRIES:
            self.is_cut = True
            self._seen -= 1
            del some[-1]
        return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in some)

    def _takes(self, status: os.stat_result) -> bool:
        used = status.st_blocks * BLOCK_BYTES
        is_hollow = status.st_size > used * MAX_HOLLOWNESS + HOLLOW_SLACK_BYTES
        if is_hollow or not stat.S_ISREG(status.st_mode):
            return False
        self.is_cut |= self._taken == MAX_TREE_ENTRIES
        return self._taken < MAX_TREE_ENTRIES


def _is_possible(path: str) -> bool:
    try:
        check_tree_path(path)
    except ContractError:
        return False
    return True
