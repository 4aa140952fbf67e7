"""The node's state on disk: several processes see one node, and a restarted agent finds it."""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agents.simdriver.state import Node, read, write


class Store:
    """Reads are cached until the file changes; changes are made under an exclusive lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int] | None = None
        self._node: Node | None = None

    def create(self, node: Node) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._save(node)

    def node(self) -> Node:
        """The node as it is now. Do not change it: use `change`."""
        stat = self.path.stat()
        stamp = (stat.st_mtime_ns, stat.st_ino)
        if self._node is None or stamp != self._stamp:
            self._node = read(json.loads(self.path.read_text("utf-8")))
            self._stamp = stamp
        return self._node

    @contextmanager
    def change(self) -> Iterator[Node]:
        """The node under lock; saved when the block ends, left as it was when it raises."""
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._node = None
            try:
                node = self.node()
                yield node
                self._save(node)
            finally:
                self._node = None

    def _save(self, node: Node) -> None:
        """Replaced in one step, so that a reader never sees half a file."""
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".driver-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(write(node), file)
        Path(name).replace(self.path)
