"""How good estimates of starts were."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduler.core.forecast.calibration import MIN_WAIT_SECONDS, EstimateRecord, WaitRange


@dataclass(frozen=True, slots=True)
class ForecastAccuracy:
    """Over the jobs that waited at least a minute."""

    estimates: int
    coverage_pct: float
    """The pessimistic bound held, to a minute."""
    median_error_pct: float
    """|expected - actual| / actual wait."""
    tightness: float
    """Median of pessimistic / actual wait."""
    optimistic_pct: float
    """The job started no sooner than the optimistic value."""


def forecast_accuracy(pairs: Iterable[tuple[WaitRange, float]]) -> ForecastAccuracy | None:
    """From (estimate, actual wait in seconds); None if no job waited a minute."""
    waited = [(waits, actual) for waits, actual in pairs if actual >= MIN_WAIT_SECONDS]
    if not waited:
        return None
    actual = np.array([wait for _, wait in waited])
    low, middle, high = np.array(
        [(waits.optimistic, waits.expected, waits.pessimistic) for waits, _ in waited]
    ).T
    return ForecastAccuracy(
        estimates=len(waited),
        coverage_pct=_percent(actual <= high + MIN_WAIT_SECONDS),
        median_error_pct=round(100 * float(np.median(np.abs(middle - actual) / actual)), 1),
        tightness=round(float(np.median(high / actual)), 2),
        optimistic_pct=_percent(actual >= low),
    )


def _percent(holds: np.typing.NDArray[np.bool_]) -> float:
    return round(100 * float(holds.mean()), 1)


@dataclass(frozen=True, slots=True)
class EvaluatedEstimate:
    """An estimate made at time `at` during a replay, and what calibration needs of it."""

    at: float
    own: WaitRange
    published: WaitRange
    calibrated: WaitRange
    kind: str = ""

    def record(self, now: float, started_at: float | None) -> EstimateRecord:
        """As calibration needs it at time `now`."""
        until = now if started_at is None else started_at
        return EstimateRecord(
            self.own, self.calibrated, until - self.at, started_at is not None, self.kind
        )
