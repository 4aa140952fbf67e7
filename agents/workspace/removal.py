"""Removes what a job wrote: folders of any depth, any names and any modes."""

import contextlib
import os
from itertools import islice
from pathlib import Path
from uuid import uuid4

from agents.host.private_files import PRIVATE_FOLDER

# A job can put millions of files into one folder.
MAX_ENTRIES = 1_000


def remove_folder(folder: Path, bin_folder: Path) -> None:
    """Remove it with all that it has; no effect if it is gone. Raises OSError.

    It goes to `bin_folder` first, on the same file system, so that it is gone at once; what an
    agent that ended leaves there, `empty_bin` removes."""
    with contextlib.suppress(FileNotFoundError):
        _remove(_hoisted(folder, bin_folder), bin_folder)


def empty_bin(bin_folder: Path) -> None:
    """Raises OSError."""
    for path in list(bin_folder.iterdir()):
        _remove(path, bin_folder)


def _remove(top: Path, bin_folder: Path) -> None:
    """Each folder inside is moved to the bin before it is emptied: a job can nest folders deeper
    than a path may be long."""
    left = [top]
    while left:
        folder = left.pop()
        while entries := _some_entries(folder):
            for entry in entries:
                # Never through a link.
                if entry.is_dir(follow_symlinks=False):
                    left.append(_hoisted(Path(entry.path), bin_folder))
                else:
                    Path(entry.path).unlink()
        folder.rmdir()


def _some_entries(folder: Path) -> list["os.DirEntry[str]"]:
    with os.scandir(folder) as entries:
        return list(islice(entries, MAX_ENTRIES))


def _hoisted(folder: Path, bin_folder: Path) -> Path:
    target = bin_folder / uuid4().hex
    # For an agent that is not root: a job may have closed its own folders.
    folder.chmod(PRIVATE_FOLDER)
    folder.rename(target)
    return target
