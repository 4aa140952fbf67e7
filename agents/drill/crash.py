"""The drill with processes: every kill point in turn, each on a fresh node."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from agents.drill.run import DrillOutcome, run_drill

SHOWN = 5


@dataclass
class DrillReport:
    """The sum of all drills."""

    points: int = 0
    converged: int = 0
    max_rounds: int = 0
    orphans: int = 0
    double_starts: int = 0
    touched_running: int = 0
    collisions: int = 0
    # The first few drills that violated an invariant, one sentence each.
    worst: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        broken = self.orphans + self.double_starts + self.touched_running + self.collisions
        return self.converged == self.points and not broken

    def add(self, outcome: DrillOutcome) -> None:
        self.points += 1
        self.converged += outcome.converged
        self.max_rounds = max(self.max_rounds, outcome.rounds)
        self.orphans += outcome.orphans
        self.double_starts += outcome.double_starts
        self.touched_running += outcome.touched_running
        self.collisions += outcome.collisions
        if not outcome.is_good and len(self.worst) < SHOWN:
            self.worst.append(f"{outcome.killed_at}: {outcome.stuck or outcome}")

    def as_dict(self) -> dict[str, Any]:
        return {
            "points": self.points,
            "converged": self.converged,
            "max_rounds": self.max_rounds,
            "orphans": self.orphans,
            "double_starts": self.double_starts,
            "touched_running": self.touched_running,
            "collisions": self.collisions,
            "worst": self.worst,
        }


def crash_drill(*, every: int = 1, workers: int = 1) -> DrillReport:
    """Kill the agent at every `every`th point, each time on a fresh node.

    Raises RuntimeError if the script fails even without a kill.
    """
    with tempfile.TemporaryDirectory(prefix="tessera-drill-") as folder:
        baseline = run_drill(Path(folder) / "baseline", 0)
        if not baseline.converged:
            raise RuntimeError(f"the script fails even without a kill: {baseline.stuck}")
        report = DrillReport()
        for outcome in _outcomes(Path(folder), range(1, baseline.points + 1, every), workers):
            report.add(outcome)
        return report


def _outcomes(folder: Path, points: range, workers: int) -> Iterator[DrillOutcome]:
    # Each process has its own driver behind pynvml; forking a process with threads is not safe.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(partial(_at, folder), points, chunksize=8)


def _at(folder: Path, point: int) -> DrillOutcome:
    return run_drill(folder / str(point), point)
