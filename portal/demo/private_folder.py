"""Closes the demonstration's folder to other users of the machine: it has the database, the logs of
jobs and the keys of the portal and of its nodes."""

import os
from fnmatch import fnmatchcase
from pathlib import Path

# For every file that the demonstration and its processes make.
PRIVATE_UMASK = 0o077
# What it makes in the folder; the second line by Django's settings.
OWN_ENTRIES = (
    *("demo.lock", "secret-key", "nodes", "log", "logs", "beat-schedule*"),
    *("tessera.sqlite3*", "static", "broker", "counts", "bells"),
)


def close_folder(var: Path) -> None:
    """Close what earlier versions left open to other users; the folder itself only if it has
    nothing else, since TESSERA_VAR may name one that is shared."""
    entries = list(var.iterdir())
    ours = [at for at in entries if any(fnmatchcase(at.name, name) for name in OWN_ENTRIES)]
    for at in ours:
        _close(at)
    for at in var.glob("nodes/*/agent"):
        _close(at)
    if len(ours) == len(entries):
        _close(var)


def _close(at: Path) -> None:
    found = at.lstat()
    if found.st_uid == os.geteuid() and not at.is_symlink():
        at.chmod(found.st_mode & 0o700)
