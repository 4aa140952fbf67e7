"""What replicas have left to be sent: folders that nobody changes, until the portal has them.

`<root>/<replica>/output` and `<root>/<replica>/checkpoint`. The folders are the record: the next
agent goes on with what it finds.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from agents.contract.file_transfer import TreeKind
from agents.host.private_files import make_private_folder
from agents.workspace.removal import empty_bin, remove_folder

# A folder that is still being copied.
UNFINISHED = ".unfinished"
BIN = ".removed"


@dataclass(frozen=True, slots=True)
class OutgoingTree:
    """A folder to be sent."""

    replica: str
    kind: TreeKind
    folder: Path


class Outbox:
    """Thread-safe, as long as one thread handles a replica and kind at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._bin = root / BIN
        make_private_folder(root)
        make_private_folder(self._bin)
        empty_bin(self._bin)
        for folder in root.glob(f"*/*{UNFINISHED}"):
            remove_folder(folder, self._bin)

    def waiting(self, kind: TreeKind) -> list[OutgoingTree]:
        return [
            OutgoingTree(folder.parent.name, kind, folder)
            for folder in sorted(self.root.glob(f"*/{kind}"))
        ]

    def move_in(self, replica: str, kind: TreeKind, folder: Path) -> bool:
        """Take the folder, if it has anything. Raises OSError."""
        target = self._home(replica) / str(kind)
        if target.exists() or not _has_entries(folder):
            return target.exists()
        folder.rename(target)
        return True

    def unfinished(self, replica: str, kind: TreeKind) -> Path:
        """An empty folder for a copy, which `finish` then takes. Raises OSError."""
        folder = self._home(replica) / f"{kind}{UNFINISHED}"
        remove_folder(folder, self._bin)
        folder.mkdir()
        return folder

    def discard_copy(self, replica: str, kind: TreeKind) -> None:
        """Drop one that cannot be finished. Raises OSError."""
        home = self._home(replica)
        remove_folder(home / f"{kind}{UNFINISHED}", self._bin)
        with contextlib.suppress(OSError):
            home.rmdir()

    def discard(self, replica: str, kind: TreeKind) -> None:
        """Also one that waits: what is sent next is newer. Raises OSError."""
        remove_folder(self._home(replica) / str(kind), self._bin)
        self.discard_copy(replica, kind)

    def finish(self, replica: str, kind: TreeKind) -> None:
        """The copy replaces one that waits."""
        home = self._home(replica)
        remove_folder(home / str(kind), self._bin)
        (home / f"{kind}{UNFINISHED}").rename(home / str(kind))

    def remove(self, tree: OutgoingTree) -> None:
        remove_folder(tree.folder, self._bin)
        # Another kind of the same replica may be there.
        with contextlib.suppress(OSError):
            tree.folder.parent.rmdir()

    def _home(self, replica: str) -> Path:
        home = self.root / replica
        make_private_folder(home)
        return home


def _has_entries(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False
