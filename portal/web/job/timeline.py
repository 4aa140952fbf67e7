"""A job's page as values: its timeline, its replicas, why it waits or how it ended."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from portal.accounts.models import User
from portal.accounts.selectors import projects_to_work_in
from portal.audit.models import Event
from portal.audit.selectors import job_events
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.selectors import attempts_of, may_cancel
from portal.planning.visible_reasons import visible_projects
from portal.submission.replacement import may_replace
from portal.submission.retries import may_retry
from portal.web.job.status_panel import status_panel
from portal.web.logs.lines import MAX_REPLICAS, LogLine, tail
from portal.web.wording.labels import BADGES, Badge
from portal.web.wording.messages import event_text
from scheduler.core.model.states import JOB_FINAL, JobStatus

TABS = ("logs", "metrics", "events", "spec", "results")
# What a failure shows of each replica's log, and of all.
LAST_LINES = 20
# The newest events that a page shows; REST pages through all.
MAX_EVENTS = 500


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One line of the timeline. `state`: past (a badge's class), now, or next."""

    badge: Badge
    state: str
    at: datetime
    until: datetime | None
    sentence: str


def timeline(job: Job, events: Iterable[Event]) -> list[TimelineStep]:
    """The job's own status changes, at most the last seven."""
    own = [e for e in events if e.noun == "job" and e.new]
    steps = []
    for event, later in zip(own, [*own[1:], None], strict=True):
        badge = BADGES[event.new]
        state = badge.cls if later or JobStatus(event.new) in JOB_FINAL else f"{badge.cls} now"
        until = later.at if later else None
        steps.append(TimelineStep(badge, state, event.at, until, event_text(event)))
    return steps[-7:]


def job_context(user: User, job: Job) -> dict[str, Any]:
    """What every tab of the job's page shows around its own part."""
    recent = list(job_events(job).order_by("-id")[:MAX_EVENTS])
    events = recent[::-1]
    own = [e for e in events if e.noun == "job" and e.new]
    attempts = attempts_of(job)
    last: Attempt | None = attempts[-1] if attempts else None
    replicas = list(last.replicas.all()) if last else []
    is_final = JobStatus(job.status) in JOB_FINAL
    may_ask = projects_to_work_in(user).exists()
    return {
        "job": job,
        "steps": timeline(job, own),
        "events": events,
        "event_count": len(events) if len(events) < MAX_EVENTS else job_events(job).count(),
        "attempts": attempts,
        "attempt": last,
        "replicas": replicas,
        "is_final": is_final,
        "may_cancel": not is_final and may_cancel(user, job),
        "may_ask": may_ask,
        "may_retry": may_ask and may_retry(user, job),
        "panel": status_panel(
            job, last, replicas, visible_projects(user), may_replace=may_replace(user, job)
        ),
        "failure_lines": failure_lines(replicas) if job.status == JobStatus.FAILED else [],
    }


def failure_lines(replicas: Sequence[Replica]) -> list[LogLine]:
    """The last lines of those that failed, or of all where none did by itself."""
    failed = [r for r in replicas if r.exit_code not in (0, None) or r.memory_kill]
    lines, _ = tail((failed or replicas)[:MAX_REPLICAS], LAST_LINES)
    return lines
