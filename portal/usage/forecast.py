"""Will a budget last? Extrapolates the pace of the last days to its end. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from portal.database.intervals import SECOND

PACE_PERIOD = timedelta(days=7)
# A shorter history says nothing about the days to come.
MIN_PACE_PERIOD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class BudgetForecast:
    """The usage of a budget if the present pace continues."""

    # How long the pace was measured; 0 without a forecast.
    measured_over: timedelta
    # Unit-seconds used when the budget ends; None if the history is too short.
    used_by_end: int | None = None
    # When the limit is reached, if that is before the budget ends.
    exhausted_at: datetime | None = None


def pace_start(first_use: datetime | None, now: datetime) -> datetime | None:
    """When the pace begins to be measured: PACE_PERIOD ago, or at the first use if that was later.
    None if the time since is too short."""
    if first_use is None or now - first_use < MIN_PACE_PERIOD:
        return None
    return max(first_use, now - PACE_PERIOD)


def forecast_budget(
    *,
    used_unit_seconds: int,
    limit_unit_seconds: int,
    ends_at: datetime,
    recent_unit_seconds: int,
    since: datetime | None,
    now: datetime,
) -> BudgetForecast:
    """`recent_unit_seconds`: used from `since` until `now`."""
    if since is None:
        return BudgetForecast(timedelta(0))
    measured_seconds = max(1, (now - since) // SECOND)
    remaining_seconds = max(0, (ends_at - now) // SECOND)
    used_by_end = used_unit_seconds + recent_unit_seconds * remaining_seconds // measured_seconds
    exhausted_at = None
    if recent_unit_seconds and used_unit_seconds < limit_unit_seconds < used_by_end:
        remaining = limit_unit_seconds - used_unit_seconds
        exhausted_at = now + timedelta(seconds=remaining * measured_seconds // recent_unit_seconds)
    return BudgetForecast(now - since, used_by_end, exhausted_at)
