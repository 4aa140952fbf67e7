"""Reads files of the host by their absolute path, from `/` or from a copy of it below a folder."""

import gzip
from pathlib import Path
from typing import Protocol

# No file that is read here is near this size.
MAX_BYTES = 4 << 20


class HostFiles(Protocol):
    """Read access to a machine. None: the path does not exist, or may not be read."""

    def text(self, path: str) -> str | None: ...

    def names(self, path: str) -> tuple[str, ...] | None: ...

    def link(self, path: str) -> str | None: ...


class FileTree:
    """Reads files below `root`, which is `/` except in tests."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str | None:
        try:
            with self.at(path).open("rb") as file:
                if path.endswith(".gz"):
                    with gzip.open(file) as unpacked:
                        return unpacked.read(MAX_BYTES).decode("utf-8", "replace")
                return file.read(MAX_BYTES).decode("utf-8", "replace")
        except (OSError, EOFError):
            return None

    def names(self, path: str) -> tuple[str, ...] | None:
        try:
            return tuple(sorted(entry.name for entry in self.at(path).iterdir()))
        except OSError:
            return None

    def link(self, path: str) -> str | None:
        try:
            return str(self.at(path).readlink())
        except OSError:
            return None
