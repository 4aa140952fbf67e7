"""What the page of a job says of its idle GPUs, and of a gang that makes no progress."""

from collections.abc import Iterable

from django.utils import timezone
from django.utils.translation import gettext as _

from agents.contract.moments import write_moment
from portal.audit.codes import EventCode
from portal.audit.models import Event
from portal.idle.models import IdleSpell
from portal.idle.selectors import gang_progress_of, spell_of
from portal.jobs.models import Job, StopReason
from portal.web.wording.labels import elapsed
from scheduler.core.model.states import JobStatus


def idle_warning(job: Job, events: Iterable[Event]) -> str:
    """Empty unless it runs and is idle. One query if its newest events say that it once was."""
    was_warned = any(event.code == EventCode.JOB_IDLE for event in events)
    is_running = JobStatus(job.status) is JobStatus.RUNNING
    spell = spell_of(job) if was_warned and is_running else None
    if spell is None:
        return ""
    if spell.stops_at is None:
        return _("%(evidence)s. Cancel the job if it no longer needs them") % {
            "evidence": _evidence(spell)
        }
    values = {"evidence": _evidence(spell), "at": write_moment(spell.stops_at)}
    return _("%(evidence)s. It is stopped at %(at)s unless it uses them") % values


def hung_warning(job: Job, events: Iterable[Event]) -> str:
    """Empty unless it runs without progress. One query if its events say that it once did."""
    was_warned = any(event.code == EventCode.JOB_HUNG for event in events)
    is_running = JobStatus(job.status) is JobStatus.RUNNING
    row = gang_progress_of(job) if was_warned and is_running else None
    if row is None or row.warned_at is None or row.progress.moved_at is None:
        return ""
    values = {
        "span": elapsed(row.progress.moved_at, timezone.now()),
        "rank": row.progress.first_silent_rank,
    }
    if len(row.progress.ranks) == 1:
        evidence = _("It has written neither a log line nor a metric for %(span)s")
        stop = _("The job is stopped at %(at)s unless it writes again")
    else:
        evidence = _(
            "No rank has written a log line or a metric for %(span)s. Rank %(rank)s fell silent "
            "first"
        )
        stop = _("The job is stopped at %(at)s unless a rank writes again")
    if row.stops_at is None:
        return evidence % values
    return f"{evidence % values}. {stop % {'at': write_moment(row.stops_at)}}"


def idle_end(job: Job) -> str:
    """Why it was stopped; empty unless for being idle."""
    spell = spell_of(job) if job.stop_reason == StopReason.IDLE else None
    return _evidence(spell) if spell else ""


def _evidence(spell: IdleSpell) -> str:
    span = elapsed(spell.since, spell.stopped_at or timezone.now())
    values = {"span": span, "peak": spell.peak_percent}
    return _("Idle for %(span)s: its GPUs were at most %(peak)s %% active") % values
