"""How users choose time limits: the ratio of run time to limit, learned as runs end."""

from collections import defaultdict
from dataclasses import dataclass, field
from math import log

import numpy as np
from numpy.typing import NDArray

# With fewer ended runs with a chosen limit, a user's limits are believed.
MIN_RUNS = 8
# The prior mean ratio; it weighs as much as PRIOR_WEIGHT runs.
PRIOR_RATIO = 0.5
PRIOR_WEIGHT = 5.0
# Limits with a lower typical ratio are believed only if they follow the run times.
LOW_RATIO = 0.1
# Limits follow the run times if ratios spread at most this part as wide as run times do.
MAX_RELATIVE_SPREAD = 0.7


@dataclass
class _Habit:
    """One user's ended runs with a chosen limit: sums of ratios, logarithms and squares."""

    runs: int = 0
    shares: float = 0.0
    ratio: float = 0.0
    ratio_squared: float = 0.0
    ran: float = 0.0
    ran_squared: float = 0.0

    def add(self, ran: float, ratio: float) -> None:
        self.runs += 1
        self.shares += ratio
        self.ratio += log(ratio)
        self.ratio_squared += log(ratio) ** 2
        self.ran += log(ran)
        self.ran_squared += log(ran) ** 2

    @property
    def believable(self) -> bool:
        """The limits are near the run times, or far from them but proportional."""
        if self.runs < MIN_RUNS or self.ratio / self.runs >= log(LOW_RATIO):
            return True
        spread = self.ratio_squared / self.runs - (self.ratio / self.runs) ** 2
        of_runs = self.ran_squared / self.runs - (self.ran / self.runs) ** 2
        return spread <= MAX_RELATIVE_SPREAD**2 * of_runs + 1e-9


@dataclass
class LimitRatios:
    """(limit, run time / limit) of ended runs with a chosen limit, in the order they ended. Ratios
    are at most 1."""

    max_remembered: int = 1_000
    """Only the newest ratios are kept for sampling; users' habits cover all."""
    _values: list[tuple[float, float]] = field(default_factory=list)
    _habits: dict[str, _Habit] = field(default_factory=lambda: defaultdict(_Habit))

    def add(self, user: str, ran_seconds: float, limit_seconds: float) -> None:
        """A run with a chosen limit ended by itself, or by its limit."""
        if limit_seconds <= 0:
            return
        ran = max(1.0, ran_seconds)
        ratio = min(1.0, ran / limit_seconds)
        self._habits[user].add(ran, ratio)
        self._values.append((limit_seconds, ratio))
        if len(self._values) > 2 * self.max_remembered:
            del self._values[: -self.max_remembered]

    def is_believable(self, user: str) -> bool:
        """Whether a limit chosen by this user says something about the run time."""
        habit = self._habits.get(user)
        return habit is None or habit.believable

    def mean_ratio(self, user: str) -> float:
        """The mean part of a chosen limit that this user's runs take, in (0, 1]."""
        habit = self._habits.get(user)
        runs, shares = (habit.runs, habit.shares) if habit else (0, 0.0)
        return (shares + PRIOR_WEIGHT * PRIOR_RATIO) / (runs + PRIOR_WEIGHT)

    def values(self) -> NDArray[np.float64]:
        """The remembered (limit, ratio), oldest first. Shape (runs, 2)."""
        return np.array(self._values[-self.max_remembered :]).reshape(-1, 2)

    def pairs(self) -> tuple[tuple[float, float], ...]:
        """`values` as tuples."""
        return tuple(self._values[-self.max_remembered :])


def remaining_seconds(
    ratios: NDArray[np.float64], limit_seconds: float, age_seconds: float, quantile: float
) -> float | None:
    """The quantile of the seconds that remain to a job of this age, if its ratio is one of those
    that end beyond its age. None if none does: only the limit is known."""
    ends = np.sort(ratios) * limit_seconds
    ends = ends[np.searchsorted(ends, age_seconds, side="right") :]
    if not len(ends):
        return None
    return float(np.quantile(ends, quantile)) - age_seconds
