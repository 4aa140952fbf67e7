"""Keeps the agent's folder from other users of the machine: it has the node's key, the environment
of jobs, and their logs."""

import os
from dataclasses import dataclass
from pathlib import Path

# For every file that the agent makes.
PRIVATE_UMASK = 0o077
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
# Others may pass through: the daemons of MPS shares run as the jobs' user and live below.
AGENT_FOLDER = 0o711
EXPOSED_BITS = 0o066


class FolderExposed(Exception):
    """Others can read the agent's folder; the agent does not start."""


@dataclass(frozen=True, slots=True)
class Access:
    """A path's owner and its permission bits."""

    owner: int
    mode: int


@dataclass(frozen=True, slots=True)
class Exposure:
    """Who else can read a folder, as a sentence, and the command that ends it."""

    why: str
    mend: str


def exposure(folder: str, access: Access, user: int) -> Exposure | None:
    """None if only `user` and root can read the folder and write to it."""
    if access.owner not in (user, 0):
        return Exposure(
            f"{folder} belongs to uid {access.owner}, who can read the agent's files",
            f"sudo chown {user} {folder} && sudo chmod {AGENT_FOLDER:o} {folder}",
        )
    if access.mode & EXPOSED_BITS:
        why = f"others can read or write {folder}, mode {access.mode & 0o777:o}"
        return Exposure(why, f"sudo chmod {AGENT_FOLDER:o} {folder}")
    return None


def path_access(path: Path) -> Access:
    """Raises OSError."""
    found = path.stat()
    return Access(found.st_uid, found.st_mode & 0o7777)


def make_agent_folder(folder: Path) -> None:
    """Create the agent's folder, or accept one that others cannot read. Raises FolderExposed."""
    missing = [at for at in (folder, *folder.absolute().parents) if not at.exists()]
    for at in reversed(missing):
        at.mkdir(exist_ok=True)
        at.chmod(AGENT_FOLDER)
    if found := exposure(str(folder), path_access(folder), os.geteuid()):
        raise FolderExposed(f"{found.why}: {found.mend}")


def make_private_folder(folder: Path) -> None:
    """Create it, or close one that an earlier version left open."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(PRIVATE_FOLDER)


def make_private_file(path: Path) -> None:
    """Create it, or close one that an earlier version left open."""
    path.touch(mode=PRIVATE_FILE)
    path.chmod(PRIVATE_FILE)
