"""Whether a budget lasts: what is used by now, and the last days' pace until its end. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from portal.usage.ledger import SECOND

PACE_PERIOD = timedelta(days=7)
# What was used in less than this says nothing of the days to come.
MIN_PACE_PERIOD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class BudgetForecast:
    """`by_end`: unit-seconds used when the budget ends, None without a basis. `over`: how long the
    pace was measured. `runs_out`: when the limit is reached at this pace, if before the end."""

    measured_over: timedelta
    used_by_end: int | None = None
    exhausted_at: datetime | None = None


def pace_start(first: datetime | None, now: datetime) -> datetime | None:
    """From when the pace is measured: the last seven days, or since the very first use where that
    was later. None where it is too short to say anything."""
    if first is None or now - first < MIN_PACE_PERIOD:
        return None
    return max(first, now - PACE_PERIOD)


def forecast_budget(
    *,
    used_unit_seconds: int,
    limit_unit_seconds: int,
    ends_at: datetime,
    recent_unit_seconds: int,
    since: datetime | None,
    now: datetime,
) -> BudgetForecast:
    """`lately`: unit-seconds used from `since` until `now`."""
    if since is None:
        return BudgetForecast(timedelta(0))
    over = max(1, (now - since) // SECOND)
    left = max(0, (ends_at - now) // SECOND)
    by_end = used_unit_seconds + recent_unit_seconds * left // over
    runs_out = None
    if recent_unit_seconds and used_unit_seconds < limit_unit_seconds < by_end:
        runs_out = now + timedelta(
            seconds=(limit_unit_seconds - used_unit_seconds) * over // recent_unit_seconds
        )
    return BudgetForecast(now - since, by_end, runs_out)
