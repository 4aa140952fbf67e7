"""The node's state on disk, shared by processes and kept when an agent restarts."""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agents.simdriver.state import SimulatedNode, node_from_json, node_to_json


class Store:
    """Reads are cached until the file changes; changes are made under an exclusive lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        # One value, so that threads never see a node with another one's stamp.
        self._cache: tuple[tuple[int, int], SimulatedNode] | None = None

    def create(self, node: SimulatedNode) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._save(node)

    def node(self) -> SimulatedNode:
        """The node as it is now. Do not change it: use `change`."""
        stat = os.stat(self._name)  # noqa: PTH116 - asked at every call of the driver
        stamp = (stat.st_mtime_ns, stat.st_ino)
        cache = self._cache
        if cache is None or cache[0] != stamp:
            cache = self._cache = stamp, self._read()
        return cache[1]

    def cached_node(self) -> SimulatedNode:
        """The node as this process last read it, without another look at the file."""
        cache = self._cache
        return cache[1] if cache else self.node()

    @contextmanager
    def change(self) -> Iterator[SimulatedNode]:
        """The node under lock; saved when the block ends, left as it was when it raises.

        It is a copy of its own: other threads of this process go on with what stands in the file.
        """
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            node = self._read()
            yield node
            self._save(node)
            self._cache = None

    def _read(self) -> SimulatedNode:
        return node_from_json(json.loads(self.path.read_text("utf-8")))

    def _save(self, node: SimulatedNode) -> None:
        """Replaced in one step, so that a reader never sees half a file."""
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".driver-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(node_to_json(node), file)
        Path(name).replace(self.path)
