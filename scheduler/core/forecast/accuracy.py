"""How good forecasts of starts were, and the one who asks and keeps them during a replay."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduler.core.forecast.calibration import MIN_WAIT_SECONDS, EstimateRecord, WaitRange


@dataclass(frozen=True, slots=True)
class ForecastAccuracy:
    """Over the jobs that waited at least a minute. `coverage_pct`: the pessimistic bound held, to
    a minute. `median_error_pct`: |expected - actual| / actual wait. `tightness`: median of
    pessimistic / actual. `optimistic_pct`: it started no sooner than the optimistic value."""

    estimates: int
    coverage_pct: float
    median_error_pct: float
    tightness: float
    optimistic_pct: float


def forecast_accuracy(pairs: Iterable[tuple[WaitRange, float]]) -> ForecastAccuracy | None:
    """From (told, actual wait in seconds); None where nobody waited a minute."""
    waited = [(told, actual) for told, actual in pairs if actual >= MIN_WAIT_SECONDS]
    if not waited:
        return None
    actual = np.array([wait for _, wait in waited])
    low, middle, high = np.array(
        [(told.optimistic, told.expected, told.pessimistic) for told, _ in waited]
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
    """A question of a replay: what was told, and what is kept for calibration."""

    at: float
    own: WaitRange
    published: WaitRange
    calibrated: WaitRange
    kind: str = ""

    def record(self, now: float, started_at: float | None) -> EstimateRecord:
        """As calibration wants it at time `now`."""
        until = now if started_at is None else started_at
        return EstimateRecord(
            self.own, self.calibrated, until - self.at, started_at is not None, self.kind
        )
