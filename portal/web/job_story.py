"""A job's page as values: its timeline, its replicas with their logs, why it waits or ended."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from portal.accounts.models import User
from portal.audit.models import Event
from portal.audit.selectors import events_of
from portal.jobs.logs import tail_lines
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.reasons import projects_of
from portal.jobs.replacing import may_replace
from portal.jobs.selectors import attempts_of, gpu_hours, may_cancel, usage_of
from portal.web.panel import panel_of
from portal.web.telling import told_event
from portal.web.words import BADGES, Badge
from scheduler.core.states import JOB_FINAL, JobStatus

LINES = 1_000
TABS = ("logs", "events", "spec", "results")
# Escape sequences, then whatever else would move a cursor or turn the text around.
ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[PX^_].*?\x1b\\|\x1b."
)
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the timeline. `state`: past (a badge's class), now, or next."""

    badge: Badge
    state: str
    at: datetime
    until: datetime | None
    sentence: str


@dataclass(frozen=True, slots=True)
class LogLine:
    rank: int
    text: str


def plain(line: str) -> str:
    """A log line as harmless text: escape sequences and controls dropped, the rest kept."""
    return UNSAFE.sub("", ESCAPES.sub("", line))


def timeline(job: Job, events: Iterable[Event]) -> list[Step]:
    """The job's own status changes, at most the last seven."""
    own = [e for e in events if e.noun == "job" and e.new]
    steps = []
    for event, later in zip(own, [*own[1:], None], strict=True):
        badge = BADGES[event.new]
        state = badge.cls if later or JobStatus(event.new) in JOB_FINAL else f"{badge.cls} now"
        until = later.at if later else None
        steps.append(Step(badge, state, event.at, until, told_event(event)))
    return steps[-7:]


def log_lines(replicas: Iterable[Replica], lines: int = LINES) -> list[LogLine]:
    """The last lines of each replica's log, rank by rank, made harmless."""
    return [
        LogLine(replica.rank, plain(line))
        for replica in replicas
        for line in tail_lines(replica, lines)
    ]


def story(user: User, job: Job, *, tab: str, rank: int | None) -> dict[str, Any]:
    """Everything that the job's page shows."""
    events = list(events_of(job))
    attempts = attempts_of(job)
    last: Attempt | None = attempts[-1] if attempts else None
    replicas = list(last.replicas.all()) if last else []
    shown = [r for r in replicas if rank is None or r.rank == rank]
    is_final = JobStatus(job.status) in JOB_FINAL
    return {
        "job": job,
        "steps": timeline(job, events),
        "events": events,
        "attempts": attempts,
        "attempt": last,
        "replicas": replicas,
        "lines": log_lines(shown) if tab == "logs" else [],
        "log_bytes": sum(r.log_bytes for r in replicas),
        "tab": tab,
        "rank": rank,
        "is_final": is_final,
        "may_cancel": not is_final and may_cancel(user, job),
        "panel": panel_of(job, last, replicas, projects_of(user), may_take=may_replace(user, job)),
        "gpu_hours": gpu_hours(usage_of([job]).get(job.pk, 0)),
        "failure_lines": log_lines(replicas, 20)[-20:] if job.status == JobStatus.FAILED else [],
    }
