"""Allows one agent for one folder: two would keep taking each other's epoch and containers."""

import fcntl
from pathlib import Path
from typing import IO


class FolderInUse(Exception):
    """Another agent runs from this folder."""


def lock_folder(folder: Path) -> IO[bytes]:
    """Lock the folder until the file is closed or the process ends. Raises FolderInUse."""
    lock = (folder / "lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as taken:
        lock.close()
        sentence = f"another agent runs from {folder}: stop it, or name another --var"
        raise FolderInUse(sentence) from taken
    return lock
