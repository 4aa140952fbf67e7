"""The expected start of a waiting job, in words: a range and its basis."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _

from portal.jobs.models import Job
from portal.planning.estimates import remaining_range
from portal.web.wording.labels import duration
from portal.web.wording.messages import stored_text
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class StartRange:
    """Waits are durations from now, ready to print."""

    about: str
    """The median wait."""
    low: str
    high: str
    """8 of 10 forecasts lie between `low` and `high`."""
    at: datetime
    basis: str
    """What the estimate rests on."""

    @property
    def span(self) -> str:
        return f"{self.low} – {self.high}"


def expected_start(job: Job) -> StartRange | None:
    """None for a job that is not queued or has no estimate."""
    if JobStatus(job.status) is not JobStatus.QUEUED or not job.estimate:
        return None
    return start_from_estimate(job.estimate)


def start_from_estimate(estimate: Mapping[str, Any]) -> StartRange:
    """`estimate` as it is stored in a job's row."""
    low, middle, high = remaining_range(estimate)
    return StartRange(
        about=duration(max(60, middle)),
        low=_wait(low),
        high=_wait(high),
        at=datetime.fromtimestamp(int(estimate["expected"]), UTC),
        basis=stored_text(estimate, "basis"),
    )


def _wait(seconds: int) -> str:
    """No estimate is good to the second."""
    return _("under 1 min") if seconds < 60 else duration(seconds)
