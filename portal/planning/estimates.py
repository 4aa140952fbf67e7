"""When waiting jobs are expected to start, and when they did: later answers are corrected by it.

A job's row has the present answer; a StartEstimate its first one, with what came true.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from portal.jobs.models import Job, StartEstimate
from portal.live.bell import ring
from portal.planning.requests import epoch_seconds
from scheduler.core.forecast.calibration import EstimateRecord, WaitRange
from scheduler.core.forecast.pass_estimates import PassEstimate, estimate_record
from scheduler.core.model.decisions import Estimate
from scheduler.core.model.message import Message, make_message
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.states import JobStatus

# Older questions say nothing that newer ones do not.
QUESTIONS_KEPT = 5_000
QUESTIONS_READ = 2_000
WRITTEN_AT_ONCE, MOST_BELLS = 500, 1_000
# An answer that moved by less than this part of the wait, and these seconds, is not written again.
SAME_PART, SAME_SECONDS = 0.02, 10
TIMES = ("optimistic", "expected", "pessimistic")
BASIS = ("basis", "basis_said")


def estimate_as_dict(estimate: Estimate) -> dict[str, Any]:
    """As a job's row has it: three times in seconds since the epoch, and what they rest on."""
    basis = {"basis": estimate.basis.text, "basis_said": estimate.basis.as_dict()}
    return {name: getattr(estimate, name) for name in TIMES} | basis


# Who waits for these is told so in place of an estimate; the planner simulates none of them.
NO_ESTIMATE_KEYS: dict[str, str] = {
    ReasonCode.APPROVAL: "approval",
    ReasonCode.QUOTA_USER: "quota",
    ReasonCode.QUOTA_PROJECT: "quota",
    ReasonCode.BUDGET: "budget",
    ReasonCode.PENDING_LIMIT: "pending_limit",
    ReasonCode.HELD: "held",
    ReasonCode.DEPENDENCY: "dependency",
    ReasonCode.NODE_UNAVAILABLE: "node_unavailable",
    ReasonCode.IMPOSSIBLE: "impossible",
}


def no_estimate_for_job(job: Job) -> Message | None:
    """What a waiting job is told in place of an estimate, on pages and over REST. None for one that
    has an estimate, and for what waits no more."""
    status = JobStatus(job.status)
    if status is JobStatus.AWAITING_APPROVAL:
        return make_message("no_estimate.approval")
    if status is not JobStatus.QUEUED or job.estimate:
        return None
    return no_estimate_for_code(str((job.reason or {}).get("code", "")), job.begin_at)


def no_estimate_for_code(code: str, begin_at: datetime | None = None) -> Message:
    """For a job that waits for this reason, and asks to begin then."""
    if code == ReasonCode.BEGIN_TIME and begin_at:
        time = timezone.localtime(begin_at).strftime("%Y-%m-%d %H:%M %Z")
        return make_message("no_estimate.begin_time", time=time)
    return make_message(f"no_estimate.{NO_ESTIMATE_KEYS.get(code, 'nothing')}")


def past_estimates(now: datetime) -> list[EstimateRecord]:
    """The last first answers, oldest first, with what came true or how long they are open."""
    rows = StartEstimate.objects.exclude(kind="").order_by("-id")[:QUESTIONS_READ]
    found = rows.values_list("own", "calibrated", "estimated_at", "started_at", "kind")
    return [
        estimate_record(
            WaitRange(*own),
            WaitRange(*calibrated),
            estimated_at.timestamp(),
            started_at.timestamp() if started_at else None,
            kind,
            now.timestamp(),
        )
        for own, calibrated, estimated_at, started_at, kind in reversed(found)
    ]


def estimates_write(estimates: Mapping[str, PassEstimate], estimated_at: datetime) -> None:
    """Write when each queued job will start, by job id; one that is not among them has nothing to
    go by. What hardly moved is left as it is; what nobody is told is kept to learn from."""
    rows = Job.objects.queued()
    told = {
        int(job): estimate_as_dict(estimate)
        for job, estimate in estimates.items()
        if estimate.is_published
    }
    known = dict(rows.values_list("pk", "estimate"))
    now = epoch_seconds(estimated_at)
    changed = [
        Job(pk=pk, estimate=told.get(pk))
        for pk, old in known.items()
        if not _is_same(old, told.get(pk), now)
    ]
    rows.bulk_update(changed, ["estimate"], batch_size=WRITTEN_AT_ONCE)
    _keep({pk: estimates[str(pk)] for pk in known if str(pk) in estimates}, estimated_at)
    for job in changed[:MOST_BELLS]:
        ring(f"job:{job.pk}")


def _is_same(old: dict[str, Any] | None, new: dict[str, Any] | None, now: int) -> bool:
    if old is None or new is None:
        return old is new
    return all(
        abs(old[name] - new[name]) <= max(SAME_SECONDS, SAME_PART * abs(new[name] - now))
        for name in TIMES
    )


def _keep(found: Mapping[int, PassEstimate], estimated_at: datetime) -> None:
    """The first answer to each job."""
    asked = set(
        StartEstimate.objects.filter(job__status=JobStatus.QUEUED).values_list("job_id", flat=True)
    )
    new = [_row(pk, estimate, estimated_at) for pk, estimate in found.items() if pk not in asked]
    StartEstimate.objects.bulk_create(new, batch_size=WRITTEN_AT_ONCE)


def _row(job: int, estimate: PassEstimate, estimated_at: datetime) -> StartEstimate:
    """The three times in order, whatever rounding did."""
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
    """Drop answers whose start nobody noted while the job waits no more, and all but the newest."""
    StartEstimate.objects.filter(started_at=None).exclude(job__status=JobStatus.QUEUED).delete()
    newest = StartEstimate.objects.order_by("-id").values_list("id", flat=True)
    if oldest := newest[QUESTIONS_KEPT : QUESTIONS_KEPT + 1].first():
        StartEstimate.objects.filter(id__lte=oldest).delete()


def remaining_range(estimate: Mapping[str, Any]) -> tuple[int, int, int]:
    """Seconds from now to the (optimistic, expected, pessimistic) start; never less than 0."""
    now = epoch_seconds(timezone.now())
    low, middle, high = (max(0, int(estimate[name]) - now) for name in TIMES)
    return low, middle, high
