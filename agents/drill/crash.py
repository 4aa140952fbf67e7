"""Every point of the script in turn: a fresh node, one end, and what came of it."""

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
    """The sum of all drills. `worst`: the first few that broke a promise, each in a sentence."""

    points: int = 0
    converged: int = 0
    max_rounds: int = 0
    orphans: int = 0
    double_starts: int = 0
    touched_running: int = 0
    worst: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        broken = self.orphans + self.double_starts + self.touched_running
        return self.converged == self.points and not broken

    def add(self, outcome: DrillOutcome) -> None:
        self.points += 1
        self.converged += outcome.converged
        self.max_rounds = max(self.max_rounds, outcome.rounds)
        self.orphans += outcome.orphans
        self.double_starts += outcome.double_starts
        self.touched_running += outcome.touched_running
        broken = outcome.orphans + outcome.double_starts + outcome.touched_running
        if (broken or not outcome.converged) and len(self.worst) < SHOWN:
            self.worst.append(f"{outcome.killed_at}: {outcome.stuck or outcome}")

    def as_dict(self) -> dict[str, Any]:
        return {
            "points": self.points,
            "converged": self.converged,
            "max_rounds": self.max_rounds,
            "orphans": self.orphans,
            "double_starts": self.double_starts,
            "touched_running": self.touched_running,
            "worst": self.worst,
        }


def crash_drill(*, every: int = 1, workers: int = 1) -> DrillReport:
    """End the agent at every `every`th point, on a fresh node each time.

    Raises RuntimeError where not even the script without an end comes to its own.
    """
    with tempfile.TemporaryDirectory(prefix="tessera-drill-") as folder:
        calm = run_drill(Path(folder) / "calm", 0)
        if not calm.converged:
            raise RuntimeError(f"the script fails without any end of an agent: {calm.stuck}")
        report = DrillReport()
        for outcome in _outcomes(Path(folder), range(1, calm.points + 1, every), workers):
            report.add(outcome)
        return report


def _outcomes(folder: Path, points: range, workers: int) -> Iterator[DrillOutcome]:
    # Each process has a driver of its own behind pynvml; a fork of one with threads is not safe.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(partial(_at, folder), points, chunksize=8)


def _at(folder: Path, point: int) -> DrillOutcome:
    return run_drill(folder / str(point), point)
