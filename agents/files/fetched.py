"""What a replica was given is noted in its own folder, where its program cannot write: the next
agent finds it, and a checkpoint that was fetched is not sent back as a new one."""

import json
from dataclasses import asdict
from pathlib import Path

from agents.files.saved_mark import SavedMark, read_mark
from agents.workspace.folders import ReplicaFolders

COMPLETE = "inputs-complete"
# The commit of the code folder, if a git repository has it.
COMMIT = "code-commit"


def has_fetched(folders: ReplicaFolders) -> bool:
    """Its folders have all that they are to have."""
    return _note(folders).exists()


def note_fetched(folders: ReplicaFolders) -> None:
    """Raises OSError."""
    mark, note = read_mark(folders.checkpoint), _note(folders)
    unfinished = note.with_suffix(".new")
    unfinished.write_text(json.dumps(asdict(mark) if mark else None), "utf-8")
    unfinished.rename(note)


def fetched_mark(folders: ReplicaFolders) -> SavedMark | None:
    """Of the checkpoint that it was given; None without one."""
    try:
        found = json.loads(_note(folders).read_text("utf-8"))
        return SavedMark(**found) if found else None
    except (OSError, ValueError, TypeError):
        return None


def note_commit(folders: ReplicaFolders, commit: str) -> None:
    """Before `note_fetched`. Raises OSError."""
    (folders.scratch.parent / COMMIT).write_text(commit, "utf-8")


def fetched_commit(folders: ReplicaFolders) -> str:
    """The commit that its code folder has; empty without one, and while it is being fetched."""
    if not has_fetched(folders):
        return ""
    try:
        return (folders.scratch.parent / COMMIT).read_text("utf-8")
    except (OSError, ValueError):
        return ""


def _note(folders: ReplicaFolders) -> Path:
    return folders.scratch.parent / COMPLETE
