"""The tasks that a worker has ended, read from its log as it grows."""

import json
from pathlib import Path
from typing import Any

LOGGER = "portal.monitoring.celery_process"


class TaskLog:
    """Counts from `begin` on."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._rest = path, 0, ""
        self._ends: dict[str, list[float]] = {}

    def begin(self) -> None:
        self.read()
        self._ends = {}

    def read(self) -> None:
        if not self._path.exists():
            return
        with self._path.open(errors="replace") as log:
            log.seek(self._offset)
            *lines, self._rest = (self._rest + log.read()).split("\n")
            self._offset = log.tell()
        for line in lines:
            if LOGGER in line:
                row = json.loads(line)
                if row["event"] == "task done":
                    name = row["task"].rpartition(".")[2]
                    self._ends.setdefault(name, []).append(float(row["seconds"]))

    def figures(self) -> dict[str, Any]:
        """How often each task ended, and its longest run."""
        return {
            name: {"ended": len(seconds), "longest_s": round(max(seconds), 2)}
            for name, seconds in sorted(self._ends.items())
        }
