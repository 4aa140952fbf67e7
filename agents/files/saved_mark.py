"""The file by which a job says that a checkpoint is whole."""

import json
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from agents.contract.file_transfer import SAVED_FILE
from agents.files.folder_walk import FILE_FLAGS, FolderWalk

# Logs: a job may write them at any time, so they say nothing about a checkpoint.
LOGS = ("*.log", "*.txt", "*.csv", "*.jsonl", "events.out.tfevents.*")
MAX_BYTES = 64 << 10
MAX_STEP = 2**53


@dataclass(frozen=True, slots=True)
class SavedMark:
    """One `saved.json`. Another one has another inode, time or size."""

    inode: int
    changed_ns: int
    size: int


def read_mark(checkpoint: Path) -> SavedMark | None:
    """None if the job has saved none."""
    try:
        found = (checkpoint / SAVED_FILE).lstat()
    except OSError:
        return None
    return SavedMark(found.st_ino, found.st_mtime_ns, found.st_size)


def is_outdated(checkpoint: Path) -> bool:
    """Whether the job has written a file since it saved: it is at its next checkpoint, and the
    folder has files of both. Raises OSError if the folder cannot be read."""
    mark = read_mark(checkpoint)
    return mark is not None and any(
        found.status.st_mtime_ns > mark.changed_ns and not _is_log(found.path)
        for found in FolderWalk(checkpoint).files()
    )


def read_step(checkpoint: Path) -> int:
    """The step that it names; 0 without one, and for anything that is no such file."""
    try:
        descriptor = os.open(checkpoint / SAVED_FILE, FILE_FLAGS)
    except OSError:
        return 0
    with os.fdopen(descriptor, "rb") as file:
        try:
            saved = json.loads(file.read(MAX_BYTES))
        except (ValueError, OSError, RecursionError):
            return 0
    step = saved.get("step") if isinstance(saved, dict) else None
    if not isinstance(step, int) or isinstance(step, bool):
        return 0
    return step if 0 <= step <= MAX_STEP else 0


def _is_log(path: str) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatchcase(name, pattern) for pattern in LOGS)
