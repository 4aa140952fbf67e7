"""When a wait ends at the latest and who ends it, in the reader's language."""

from collections.abc import Sequence

from portal.jobs.models import Job
from portal.planning.wait_bounds import wait_bound
from portal.web.wording.messages import stored_text


def bound_text(job: Job, approvers: Sequence[str] = (), *, names_visible: bool = True) -> str:
    """A sentence without its full stop; empty where `portal.planning.wait_bounds.wait_bound` has
    nothing."""
    bound = wait_bound(job, approvers, names_visible=names_visible)
    return stored_text(bound.stored) if bound else ""
