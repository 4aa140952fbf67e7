"""Totals over time: why jobs wait, and how much of the cluster is allocated."""

from collections import Counter
from collections.abc import Iterable, Mapping

from scheduler.core.model.snapshot import RunningJob


class SimulationTotals:
    """Totals of a window from `since` to `until`. `boards`: board key by GPU."""

    def __init__(self, boards: Mapping[str, str], *, since: int, until: int) -> None:
        self.wait_seconds: Counter[str] = Counter()
        """By reason code, also outside the window."""
        self.allocated_unit_seconds: Counter[str] = Counter()
        """By board key, inside the window."""
        self._boards = boards
        self._since, self._until = since, until
        self._now = since
        self._allocated: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    def advance_to(self, now: int) -> None:
        """Count the time until `now`, in which nothing changed."""
        for code, jobs in self._waiting.items():
            self.wait_seconds[code] += jobs * (now - self._now)
        inside = min(now, self._until) - max(self._now, self._since)
        for board, units in self._allocated.items():
            self.allocated_unit_seconds[board] += units * max(0, inside)
        self._now = now

    def set_waiting(self, codes: Iterable[str]) -> None:
        """Why jobs wait from now on: one reason code a job."""
        self._waiting = Counter(codes)

    def count_devices(self, run: RunningJob, sign: int) -> None:
        """A job's devices are allocated from now on (1), or no more (-1)."""
        for replica in run.replicas:
            for device in replica.devices:
                self._allocated[self._boards[device.gpu]] += sign * device.units
