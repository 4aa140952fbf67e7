"""The timeline of a job: its status changes as steps, the present one with its progress."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from portal.audit.models import Event
from portal.web.job.start_progress import StartProgress
from portal.web.wording.labels import BADGES, Badge
from portal.web.wording.messages import event_text
from scheduler.core.model.states import JOB_FINAL, JobStatus

MAX_STEPS = 7


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One status of the job."""

    badge: Badge
    state: str
    """CSS classes: the badge's colour, and "now" for a status that may still change."""
    at: datetime
    until: datetime | None
    sentence: str
    """Why it came to this."""
    progress: Sequence[StartProgress] = ()


def timeline(events: Iterable[Event], progress: Sequence[StartProgress]) -> list[TimelineStep]:
    """The last steps of a job, the oldest first. `progress`: of its start, shown in the last."""
    changes = [event for event in events if event.noun == "job" and event.new]
    if not changes:  # retention has removed them
        return []
    steps = []
    for event, later in zip(changes, [*changes[1:], None], strict=True):
        badge = BADGES[event.new]
        is_over = later is not None or JobStatus(event.new) in JOB_FINAL
        state = badge.cls if is_over else f"{badge.cls} now"
        until = later.at if later else None
        steps.append(TimelineStep(badge, state, event.at, until, event_text(event)))
    steps[-1] = replace(steps[-1], progress=progress)
    return steps[-MAX_STEPS:]
