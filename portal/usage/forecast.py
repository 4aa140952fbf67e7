"""Whether a budget lasts: what is used by now, and the last days' pace until its end. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from portal.usage.ledger import SECOND

PACE_DAYS = timedelta(days=7)
# What was used in less than this says nothing of the days to come.
LEAST = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Forecast:
    """`by_end`: unit-seconds used when the budget ends, None without a basis. `over`: how long the
    pace was measured. `runs_out`: when the limit is reached at this pace, if before the end."""

    over: timedelta
    by_end: int | None = None
    runs_out: datetime | None = None


def pace_since(first: datetime | None, now: datetime) -> datetime | None:
    """From when the pace is measured: the last seven days, or since the very first use where that
    was later. None where it is too short to say anything."""
    if first is None or now - first < LEAST:
        return None
    return max(first, now - PACE_DAYS)


def forecast(
    *, used: int, limit: int, ends_at: datetime, lately: int, since: datetime | None, now: datetime
) -> Forecast:
    """`lately`: unit-seconds used from `since` until `now`."""
    if since is None:
        return Forecast(timedelta(0))
    over = max(1, (now - since) // SECOND)
    left = max(0, (ends_at - now) // SECOND)
    by_end = used + lately * left // over
    runs_out = None
    if lately and used < limit < by_end:
        runs_out = now + timedelta(seconds=(limit - used) * over // lately)
    return Forecast(now - since, by_end, runs_out)
