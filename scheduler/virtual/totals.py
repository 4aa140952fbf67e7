"""What is counted as time goes by: what jobs wait for, and how much of the cluster is held."""

from collections import Counter
from collections.abc import Iterable, Mapping

from scheduler.core.model.snapshot import RunningJob


class SimulationTotals:
    """`held_for`: seconds that jobs waited, by reason code. `allocated`: unit-seconds from `since`
    to `until`, by board key. `boards`: the board's key by GPU."""

    def __init__(self, boards: Mapping[str, str], *, since: int, until: int) -> None:
        self.wait_seconds: Counter[str] = Counter()
        self.allocated_unit_seconds: Counter[str] = Counter()
        self._boards = boards
        self._since, self._until = since, until
        self._now = since
        self._held: Counter[str] = Counter()
        self._why: Counter[str] = Counter()

    def advance_to(self, now: int) -> None:
        """Nothing changed until now."""
        for code, jobs in self._why.items():
            self.wait_seconds[code] += jobs * (now - self._now)
        inside = min(now, self._until) - max(self._now, self._since)
        for board, units in self._held.items():
            self.allocated_unit_seconds[board] += units * max(0, inside)
        self._now = now

    def set_waiting(self, codes: Iterable[str]) -> None:
        """Why jobs wait from now on: a code for each of them."""
        self._why = Counter(codes)

    def count_devices(self, run: RunningJob, sign: int) -> None:
        """A job's devices are held from now on (1), or no more (-1)."""
        for replica in run.replicas:
            for device in replica.devices:
                self._held[self._boards[device.gpu]] += sign * device.units
