"""Writes files below a folder: each part of a path in the folder before it, no links."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from agents.contract.file_transfer import check_tree_path
from agents.files.folder_walk import FOLDER_FLAGS

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# The program of a replica has another user than the agent.
FOLDER_MODE, FILE_MODE, PROGRAM_MODE = 0o755, 0o644, 0o755


def empty_folder(folder: Path) -> None:
    """Remove what an earlier try has written into it. Raises OSError."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


class FolderWriter:
    """A folder that is filled. `owner`: uid and gid of what is written; None for the agent's."""

    def __init__(self, folder: Path, owner: int | None = None) -> None:
        self._top = os.open(folder, FOLDER_FLAGS)
        self._owner = owner

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        os.close(self._top)

    @contextmanager
    def new_file(self, path: str, *, executable: bool) -> Iterator[BinaryIO]:
        """A file that is not there yet. Raises ContractError for a path that no tree has, and
        OSError."""
        check_tree_path(path)
        *folders, name = path.split("/")
        opened = [self._top]
        try:
            for part in folders:
                opened.append(self._folder(part, opened[-1]))
            mode = PROGRAM_MODE if executable else FILE_MODE
            descriptor = os.open(name, NEW_FILE, 0o600, dir_fd=opened[-1])
            with os.fdopen(descriptor, "wb") as file:
                yield file
                os.fchmod(descriptor, mode)
                self._give(descriptor)
        finally:
            for folder in opened[1:]:
                os.close(folder)

    def _folder(self, name: str, parent: int) -> int:
        try:
            os.mkdir(name, dir_fd=parent)
        except FileExistsError:
            return os.open(name, FOLDER_FLAGS, dir_fd=parent)
        made = os.open(name, FOLDER_FLAGS, dir_fd=parent)
        os.fchmod(made, FOLDER_MODE)
        self._give(made)
        return made

    def _give(self, descriptor: int) -> None:
        if self._owner is not None:
            os.fchown(descriptor, self._owner, self._owner)
