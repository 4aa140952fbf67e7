"""The expected start of a waiting job, in words: a range and its basis."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _

from portal.jobs.models import Job
from portal.planning.estimates import bound_cases, remaining_range
from portal.web.wording.labels import duration
from portal.web.wording.messages import stored_text
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class StartRange:
    """Waits are durations from now, ready to print."""

    text: str
    """All that may be told in a few words: "in about 2 h", or "in 9 of 10 cases within 5 h"."""
    about: str
    """The median wait; of a bound, the bound."""
    low: str
    high: str
    """8 of 10 forecasts lie between `low` and `high`."""
    at: datetime
    """The expected start; of a bound, the bound."""
    basis: str
    """What the estimate rests on."""
    cases: int = 0
    """In how many of 10 cases the bound held, where earlier estimates of its kind were so far off
    that only the bound is told; 0: the whole range is."""

    @property
    def range_at(self) -> datetime | None:
        """None where only a bound is told."""
        return None if self.cases else self.at

    @property
    def is_range(self) -> bool:
        return not self.cases and self.low != self.high

    @property
    def span(self) -> str:
        return f"{self.low} – {self.high}" if self.is_range else ""


def expected_start(job: Job) -> StartRange | None:
    """None for a job that is not queued or has no estimate."""
    if JobStatus(job.status) is not JobStatus.QUEUED or not job.estimate:
        return None
    return start_from_estimate(job.estimate)


def start_from_estimate(estimate: Mapping[str, Any]) -> StartRange:
    """`estimate` as it is stored in a job's row."""
    low, middle, high = remaining_range(estimate)
    basis, cases = stored_text(estimate, "basis"), bound_cases(estimate)
    if cases:
        limit = _wait(high)
        text = _("in %(n)s of 10 cases within %(time)s") % {"n": cases, "time": limit}
        at = datetime.fromtimestamp(int(estimate["pessimistic"]), UTC)
        return StartRange(text, limit, limit, limit, at, basis, cases)
    about = duration(max(60, middle))
    return StartRange(
        text=_("in about %(about)s") % {"about": about},
        about=about,
        low=_wait(low),
        high=_wait(high),
        at=datetime.fromtimestamp(int(estimate["expected"]), UTC),
        basis=basis,
    )


def _wait(seconds: int) -> str:
    """No estimate is good to the second."""
    return _("under 1 min") if seconds < 60 else duration(seconds)
