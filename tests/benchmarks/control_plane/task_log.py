"""The tasks that a worker has ended, read from its log as it grows."""

import itertools
import json
import time
from pathlib import Path
from typing import Any

LOGGER = "portal.monitoring.celery_process"


class TaskLog:
    """Counts from `begin` on. Call `read` often: the time of an end is that of its reading."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._rest = path, 0, ""
        self._begun = time.monotonic()
        self._ends: dict[str, list[tuple[float, float]]] = {}

    def begin(self) -> None:
        self.read()
        self._begun, self._ends = time.monotonic(), {}

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
                    end = (time.monotonic(), float(row["seconds"]))
                    self._ends.setdefault(row["task"].rpartition(".")[2], []).append(end)

    def figures(self) -> dict[str, Any]:
        """How often each task ended and its longest run; and the longest time without a sweep."""
        swept = [self._begun, *(at for at, _ in self._ends.get("sweep", [])), time.monotonic()]
        gaps = [later - earlier for earlier, later in itertools.pairwise(swept)]
        tasks = {
            name: {"ended": len(ends), "longest_s": round(max(took for _, took in ends), 2)}
            for name, ends in sorted(self._ends.items())
        }
        return {"longest_without_sweep_s": round(max(gaps), 1), "tasks": tasks}
