"""When waiting jobs are expected to start, and when they did start, which corrects later estimates.

A job's row has its current estimate; a StartEstimate keeps the first one, with the actual start.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from agents.contract.message import Message
from agents.contract.moments import write_moment
from portal.jobs.models import Job, StartEstimate
from portal.jobs.waiting_columns import waiting_columns_write
from portal.planning.reason_additions import FAR_OFF
from portal.planning.requests import epoch_seconds
from scheduler.core.forecast.calibration import EstimateRecord, WaitRange
from scheduler.core.forecast.pass_estimates import PassEstimate, estimate_record
from scheduler.core.forecast.track_record import Disclosure
from scheduler.core.model.decisions import Estimate
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.reasons import REASON_KINDS, ReasonCode
from scheduler.core.model.states import JobStatus

# Older records add nothing to newer ones.
MAX_STORED, MAX_READ = 5_000, 2_000
BATCH_SIZE = 500
# An estimate that moved by less than this part of the wait, or these seconds, is not rewritten.
SAME_PART, SAME_SECONDS = 0.02, 10
TIMES = ("optimistic", "expected", "pessimistic")
BASIS = ("basis", "basis_said")
# How often the bound held, where no more than the bound is told.
CASES = "bound_held_in_10"


def estimate_as_dict(estimate: Estimate) -> dict[str, Any]:
    """As stored in a job's row: three times in seconds since the epoch, and their basis."""
    basis = {"basis": estimate.basis.text, "basis_said": estimate.basis.as_dict()}
    stored = {name: getattr(estimate, name) for name in TIMES} | basis
    return stored | _told(estimate) if isinstance(estimate, PassEstimate) else stored


def _told(estimate: PassEstimate) -> dict[str, Any]:
    """Where earlier estimates of its kind were far off, only the bound counts: with how many of 10
    it held, rounded down."""
    track = estimate.track
    if track.disclosure is Disclosure.RANGE:
        return {}
    return {CASES: max(1, int(10 * track.hit_rate)), "outcomes": track.outcomes}


def bound_cases(estimate: Mapping[str, Any]) -> int:
    """In how many of 10 cases the job starts by the pessimistic time, if only that may be told of a
    stored estimate; 0 if all of it may."""
    return int(estimate.get(CASES, 0))


def no_estimate_for_job(job: Job) -> Message | None:
    """Why a waiting job has no estimate. None if it has one, or no longer waits."""
    status = JobStatus(job.status)
    if status is JobStatus.AWAITING_APPROVAL:
        return make_message("no_estimate.approval")
    if status is not JobStatus.QUEUED or job.estimate:
        return None
    if (job.reason or {}).get(FAR_OFF):
        return make_message("no_estimate.far_off")
    return no_estimate_for_code(str((job.reason or {}).get("code", "")), job.begin_at)


def no_estimate_for_code(code: str, begin_at: datetime | None = None) -> Message:
    """For a job that waits for this reason and may not begin before `begin_at`."""
    if code == ReasonCode.BEGIN_TIME and begin_at:
        return make_message("no_estimate.begin_time", time=write_moment(begin_at))
    why = REASON_KINDS[ReasonCode(code)].no_estimate if code in REASON_KINDS else ""
    return make_message(f"no_estimate.{why or 'nothing'}")


def past_estimates(now: datetime) -> list[EstimateRecord]:
    """The most recent first estimates, oldest first, each with its actual start or its age."""
    rows = StartEstimate.objects.exclude(kind="").order_by("-id")[:MAX_READ]
    found = rows.values_list("own", "calibrated", "estimated_at", "started_at", "kind", *TIMES)
    return [
        estimate_record(
            WaitRange(*own),
            WaitRange(*calibrated),
            estimated_at.timestamp(),
            started_at.timestamp() if started_at else None,
            kind,
            now.timestamp(),
            WaitRange(*((time - estimated_at).total_seconds() for time in times)),
        )
        for own, calibrated, estimated_at, started_at, kind, *times in reversed(found)
    ]


def estimates_write(estimates: Mapping[str, PassEstimate], estimated_at: datetime) -> None:
    """Write the estimate of each queued job, by job id; a job without one loses what it had.

    An estimate that hardly moved is left as it is. Unpublished ones are only kept to learn from.
    """
    queued = Job.objects.queued()
    published = {
        int(job): estimate_as_dict(estimate)
        for job, estimate in estimates.items()
        if estimate.is_published
    }
    written = dict(queued.values_list("pk", "estimate"))
    now = epoch_seconds(estimated_at)
    changed = {
        pk: {"estimate": published.get(pk)}
        for pk, old in written.items()
        if not _is_same(old, published.get(pk), now)
    }
    waiting_columns_write(changed)
    _record_first({pk: estimates[str(pk)] for pk in written if str(pk) in estimates}, estimated_at)


def _is_same(old: dict[str, Any] | None, new: dict[str, Any] | None, now: int) -> bool:
    if old is None or new is None:
        return old is new
    return old.get(CASES) == new.get(CASES) and all(
        abs(old[name] - new[name]) <= max(SAME_SECONDS, SAME_PART * abs(new[name] - now))
        for name in TIMES
    )


def _record_first(estimates: Mapping[int, PassEstimate], estimated_at: datetime) -> None:
    """The first estimate of each job."""
    recorded = set(
        StartEstimate.objects.filter(job__status=JobStatus.QUEUED).values_list("job_id", flat=True)
    )
    new = [_row(pk, e, estimated_at) for pk, e in estimates.items() if pk not in recorded]
    StartEstimate.objects.bulk_create(new, batch_size=BATCH_SIZE)


def _row(job: int, estimate: PassEstimate, estimated_at: datetime) -> StartEstimate:
    """With the three times in order: rounding may have swapped them."""
    times = sorted(datetime.fromtimestamp(getattr(estimate, name), UTC) for name in TIMES)
    return StartEstimate(
        job_id=job,
        estimated_at=estimated_at,
        **dict(zip(TIMES, times, strict=True)),
        basis=estimate.basis.text[:200],
        own=_waits(estimate.own),
        calibrated=_waits(estimate.calibrated),
        kind=estimate.kind[:64],
    )


def _waits(waits: WaitRange) -> list[float]:
    return [waits.optimistic, waits.expected, waits.pessimistic]


def estimates_tidy() -> None:
    """Drop records of jobs that no longer wait and never started, and all but the newest."""
    StartEstimate.objects.filter(started_at=None).exclude(job__status=JobStatus.QUEUED).delete()
    newest = StartEstimate.objects.order_by("-id").values_list("id", flat=True)
    if oldest := newest[MAX_STORED : MAX_STORED + 1].first():
        StartEstimate.objects.filter(id__lte=oldest).delete()


def remaining_range(estimate: Mapping[str, Any]) -> tuple[int, int, int]:
    """Seconds until the (optimistic, expected, pessimistic) start; at least 0."""
    now = epoch_seconds(timezone.now())
    low, middle, high = (max(0, int(estimate[name]) - now) for name in TIMES)
    return low, middle, high
