"""What would start a waiting job sooner, as stored in its reason. Where there is nothing, no page
offers anything.

`alternatives`: changed requests, each tried by the planner. `stops`: running jobs of its owner, of
which each would make room for it. `asks`: a limit that an admin may raise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portal.jobs.models import Job
from portal.planning.reason_additions import ALTERNATIVES, STOPS
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.states import JobStatus

# An admin can raise what these jobs wait for.
LIMIT_CODES = frozenset(
    {
        ReasonCode.QUOTA_PROJECT,
        ReasonCode.QUOTA_USER,
        ReasonCode.BUDGET,
        ReasonCode.PENDING_LIMIT,
    }
)


@dataclass(frozen=True, slots=True)
class Offers:
    alternatives: tuple[Mapping[str, Any], ...] = ()
    stops: tuple[Mapping[str, Any], ...] = ()
    asks: bool = False

    def __bool__(self) -> bool:
        return bool(self.alternatives or self.stops or self.asks)


def job_offers(job: Job) -> Offers:
    """None, empty, for a job that is not queued."""
    reason = job.reason
    if JobStatus(job.status) is not JobStatus.QUEUED or not reason:
        return Offers()
    return Offers(
        alternatives=tuple(reason.get(ALTERNATIVES, ())),
        stops=tuple(reason.get(STOPS, ())),
        asks=reason.get("code") in LIMIT_CODES,
    )
