"""When a waiting job will start, in words: a range, and what it rests on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _

from portal.jobs.models import Job
from portal.planning.estimates import range_left
from portal.web.wording.labels import duration
from portal.web.wording.messages import told
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class Expected:
    """`about`: how long it will probably wait; `low` and `high`: 8 of 10 forecasts lie between;
    `at`: when it will probably start."""

    about: str
    low: str
    high: str
    at: datetime
    basis: str


def expected_of(job: Job) -> Expected | None:
    """None while there is nothing to go by, or where nothing is waited for."""
    if JobStatus(job.status) is not JobStatus.QUEUED or not job.estimate:
        return None
    return expected(job.estimate)


def expected(estimate: Mapping[str, Any]) -> Expected:
    """Of an estimate as a job's row has it."""
    low, middle, high = range_left(estimate)
    return Expected(
        duration(max(60, middle)),
        _wait(low),
        _wait(high),
        datetime.fromtimestamp(int(estimate["expected"]), UTC),
        told(estimate, "basis"),
    )


def _wait(seconds: int) -> str:
    """Seconds are more than anybody knows."""
    return _("under 1 min") if seconds < 60 else duration(seconds)
