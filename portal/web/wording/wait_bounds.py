"""When a wait ends at the latest and who ends it, in the reader's language."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from portal.jobs.models import Job
from portal.planning.wait_bounds import wait_bound
from portal.web.wording.messages import stored_text


@dataclass(frozen=True, slots=True)
class BoundText:
    """`sentence` goes on after the time, such as "when J-5 (train) ends, …"."""

    at: datetime | None
    is_certain: bool
    since: datetime | None
    sentence: str


def bound_text(
    job: Job, approvers: Sequence[str] = (), *, names_visible: bool = True
) -> BoundText | None:
    """As `portal.planning.wait_bounds.wait_bound`."""
    bound = wait_bound(job, approvers, names_visible=names_visible)
    if bound is None:
        return None
    return BoundText(bound.at, bound.is_certain, bound.since, stored_text(bound.stored))
