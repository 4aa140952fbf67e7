"""The rows of Home: a running, a waiting and an ended job, each in one or two lines."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.urls import reverse
from django.utils import timezone

from portal.accounts.models import User
from portal.apps.access import AppRights, job_apps
from portal.arrays.selectors import MemberCounts
from portal.jobs.failure_causes import FailureCause
from portal.jobs.models import Job
from portal.planning.estimates import no_estimate_for_job
from portal.planning.offers import job_offers
from portal.telemetry.job_samples import JobMinute
from portal.usage.rounding import format_gpu_hours
from portal.web.home.use_lines import UseLine, use_lines
from portal.web.job.extension import can_extend
from portal.web.job.time_gauge import TimeGauge, time_gauge
from portal.web.wording.array_counts import counts_text
from portal.web.wording.failures import cause_label
from portal.web.wording.labels import elapsed, exit_meaning
from portal.web.wording.messages import failure_text, message_text
from portal.web.wording.start_estimates import StartRange, expected_start
from portal.web.wording.wait_bounds import bound_text
from scheduler.core.model.states import JobStatus

# Causes that say less than the exit code.
NOT_TELLING = frozenset({"", FailureCause.EXIT_CODE, FailureCause.UNKNOWN})
MAX_NODES = 2


@dataclass(frozen=True, slots=True)
class ArrayRow:
    """An array in the place of its members."""

    label: str
    listed: int
    """How many members the row stands for."""
    text: str
    """How all its members stand."""
    ended: int
    total: int


@dataclass(frozen=True, slots=True)
class RunningRow:
    """A job that holds devices, or an array with members that do."""

    job: Job
    array: ArrayRow | None = None
    nodes: str = ""
    gauge: TimeGauge | None = None
    """None while it does not run."""
    may_extend: bool = False
    may_stop: bool = False
    use: list[UseLine] = field(default_factory=list)
    app: str = ""
    """The first of its apps, if the user may open it now."""

    @property
    def is_measured(self) -> bool:
        return any(line.chart for line in self.use)


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A waiting job, or the first of the members of an array that wait."""

    job: Job
    waited: str
    array: ArrayRow | None = None
    expected: StartRange | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    bound: str = ""
    """When its wait ends at the latest, and who ends it."""
    no_estimate: str = ""
    """Why there is no expected start."""
    has_offers: bool = False
    """Whether its page offers something that would start it sooner."""

    @property
    def address(self) -> str:
        """Its page."""
        if self.array:
            return reverse("web:array", args=[self.array.label])
        return reverse("web:job", args=[self.job.label])


@dataclass(frozen=True, slots=True)
class EndedRow:
    """A job that has ended, or an array with members that have."""

    job: Job
    cause: str
    """Why it failed, in a phrase; empty for any other end."""
    ran: str
    gpu_hours: str
    array: ArrayRow | None = None


def array_row(job: Job, counts: Mapping[int, MemberCounts]) -> ArrayRow | None:
    """None for a job of no array. `job`: with its `member_count`."""
    listed: int = getattr(job, "member_count", 0)
    if not listed or job.array_id is None:
        return None
    found = counts[job.array_id]
    ended = found.total - found.running - found.waiting
    return ArrayRow(f"A-{job.array_id}", listed, counts_text(found), ended, found.total)


def running_row(
    user: User,
    job: Job,
    nodes: Collection[str],
    minutes: Sequence[JobMinute],
    now: datetime,
    *,
    rights: AppRights | None,
) -> RunningRow:
    """`nodes`: where it has devices; `minutes`: its samples of the last hour; `rights`: at apps,
    None where the portal serves none."""
    shown = _nodes_text(nodes)
    may_stop = JobStatus(job.status) is not JobStatus.STOPPING
    gauge = time_gauge(job, now)
    if gauge is None:
        return RunningRow(job, nodes=shown, may_stop=may_stop)
    return RunningRow(
        job=job,
        nodes=shown,
        gauge=gauge,
        may_extend=can_extend(user, job),
        may_stop=may_stop,
        use=use_lines(minutes, job.started_at or now, now),
        app=_app_to_open(user, job, rights) if rights else "",
    )


def _app_to_open(user: User, job: Job, rights: AppRights) -> str:
    if job.status != JobStatus.RUNNING:
        return ""
    return next((app for app in job_apps(job) if rights.may_visit(user, job, app)), "")


def waiting_row(job: Job, array: ArrayRow | None) -> WaitingRow:
    expected, no_estimate = expected_start(job), no_estimate_for_job(job)
    has_times = expected is not None and not expected.cases
    return WaitingRow(
        job,
        waited=elapsed(job.submitted_at, None),
        array=array,
        expected=expected,
        earliest=_time(job.estimate, "optimistic") if has_times else None,
        latest=_time(job.estimate, "pessimistic") if has_times else None,
        bound=bound_text(job),
        no_estimate=message_text(no_estimate) if no_estimate else "",
        has_offers=not array and bool(job_offers(job)),
    )


def ended_row(job: Job, unit_seconds: int, array: ArrayRow | None) -> EndedRow:
    if array:
        return EndedRow(job, cause="", ran="", gpu_hours="", array=array)
    return EndedRow(
        job,
        cause=_cause(job) if JobStatus(job.status) is JobStatus.FAILED else "",
        ran=elapsed(job.started_at, job.finished_at),
        gpu_hours=format_gpu_hours(unit_seconds),
    )


def _cause(job: Job) -> str:
    """That of its diagnosis; until there is one, or where it knows no more, how it ended."""
    if job.failure_cause not in NOT_TELLING:
        return cause_label(job.failure_cause)
    failure: dict[str, Any] = getattr(job, "failure", None) or {}
    code = failure.get("exit_code")
    if code is not None:
        return exit_meaning(code, memory_kill=failure.get("code") == "memory_kill")
    return failure_text(failure)


def _nodes_text(nodes: Collection[str]) -> str:
    names = sorted(filter(None, nodes))
    if len(names) > MAX_NODES:
        return f"{', '.join(names[:MAX_NODES])} +{len(names) - MAX_NODES:,}"
    return ", ".join(names)


def _time(estimate: Any, name: str) -> datetime:
    """Never in the past, although the estimate may be older."""
    at = datetime.fromtimestamp(int(estimate[name]), UTC)
    return max(at, timezone.now())
