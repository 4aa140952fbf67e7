"""Start estimates for the jobs that one planning pass leaves waiting, and for a job on trial."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler.core.forecast.calibration import (
    MIN_RECORDS,
    CalibratedWaits,
    Corrections,
    EstimateRecord,
    WaitRange,
)
from scheduler.core.forecast.queue_state import OwnerFactor, TrialQueueState, queue_state
from scheduler.core.forecast.queue_values import QueueState
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.forecast.starts import MIN_ENDED_RUNS, RUNS, start_estimates
from scheduler.core.forecast.track_record import UNTRIED, Disclosure, TrackRecord
from scheduler.core.model.decisions import Estimate, Plan
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.policy import OrderMode, Policy, PreemptionMode
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import ClusterSnapshot, RunningJob, WaitingJob
from scheduler.core.queue.fairshare import FairShares, cluster_totals

MIN_RUNS = 8
# Limits of runs x jobs x (nodes + jobs / 6): for a pass about a second of one core, and for one job
# on trial, which a user waits for.
MAX_PASS_WORK = 30_000_000
MAX_TRIAL_WORK = 3_000_000
# Jobs further back in the order of the pass are neither simulated nor given an estimate.
MAX_QUEUE_POSITION = 4_000
# A first estimate made this long after the job was queued could not be made earlier: there was no
# basis, or a quota blocked the job. Many of these are made at one moment, share its error, and are
# the ones that wait long; so they correct no other estimate.
LATE_SECONDS = 600


@dataclass(frozen=True, slots=True)
class PassEstimate(Estimate):
    """An estimate, and what to keep of it for an EstimateRecord."""

    own: WaitRange
    """As simulated; from the snapshot's time."""
    calibrated: WaitRange
    kind: str
    """See `record_kind`; empty if it is no evidence for others: it is late, or part of the wait is
    for a begin time."""
    is_published: bool = True
    """False: only a record to learn from, shown to no user."""
    track: TrackRecord = UNTRIED
    """Of earlier estimates of its kind: it says how much of this one is told."""


def estimate_starts(
    snapshot: ClusterSnapshot,
    policy: Policy,
    runtime_model: RuntimeModel,
    plan: Plan,
    records: Sequence[EstimateRecord] = (),
    seed: int = 0,
) -> dict[str, PassEstimate]:
    """When the jobs that this pass left waiting will start, by job id.

    `records`: the first estimate of each earlier job, oldest first, from `estimate_record`. A job
    has no estimate without a basis: fewer than MIN_ENDED_RUNS, a position beyond
    MAX_QUEUE_POSITION, or a reason that is not simulated. If the policy preempts by order, no
    estimate is published until there are MIN_RECORDS; nor is one where earlier ones of its kind
    were far off and their bounds seldom held (`TrackRecord`). A job with a reservation starts by
    then at the latest; no job starts before its begin time.
    """
    if runtime_model.runs < MIN_ENDED_RUNS:
        return {}
    after = _simulated_queue(snapshot, plan)
    jobs = after.jobs
    if not jobs:
        return {}
    kinds = {job.id: record_kind(job, policy) for job in jobs}
    corrections = {kind: Corrections.from_records(records, kind) for kind in set(kinds.values())}
    by_turn = policy.preemption is PreemptionMode.ORDER
    tracks = {kind: TrackRecord.from_records(records, kind) for kind in corrections}
    published = {
        id
        for id, kind in kinds.items()
        if tracks[kind].disclosure is not Disclosure.NOTHING
        and (not by_turn or corrections[kind].samples >= MIN_RECORDS)
    }
    state = queue_state(after, policy, runtime_model, _factor(snapshot, policy))
    simulated = start_estimates(state, runs=affordable_runs(state), seed=seed, only=set(kinds))
    reserved = {each.job: each.starts_at for each in plan.reservations}
    begins = {job.id: job.begin_at - snapshot.now for job in jobs if job.begin_at > snapshot.now}
    late = {job.id for job in jobs if snapshot.now - job.queued_at > LATE_SECONDS}
    return {
        id: replace(
            _corrected(
                *(estimate, snapshot.now, corrections[kinds[id]], "" if id in late else kinds[id]),
                reserved.get(id),
                begins.get(id, 0),
            ),
            is_published=id in published,
            track=tracks[kinds[id]],
        )
        for id, estimate in simulated.items()
        if estimate is not None
    }


class TrialEstimates:
    """Start estimates for jobs that might join the queue now: as `estimate_starts` would give them
    in the next pass, from fewer simulation runs if the queue is long."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        policy: Policy,
        runtime_model: RuntimeModel,
        plan: Plan,
        records: Sequence[EstimateRecord] = (),
    ) -> None:
        self._now, self._policy, self._records = snapshot.now, policy, records
        self._has_basis = runtime_model.runs >= MIN_ENDED_RUNS
        self._queue = TrialQueueState(
            _simulated_queue(snapshot, plan), policy, runtime_model, _factor(snapshot, policy)
        )

    def estimate(
        self, job: WaitingJob, code: ReasonCode, reserved_at: int | None
    ) -> PassEstimate | None:
        """None without a basis. `code`: why it would wait; `reserved_at`: its reserved start."""
        if not self._has_basis or not code.kind.is_simulated:
            return None
        kind = record_kind(job, self._policy)
        corrections = Corrections.from_records(self._records, kind)
        by_turn = self._policy.preemption is PreemptionMode.ORDER
        if by_turn and corrections.samples < MIN_RECORDS:
            return None
        track = TrackRecord.from_records(self._records, kind)
        if track.disclosure is Disclosure.NOTHING:
            return None
        state = self._queue.with_job(job)
        runs = affordable_runs(state, MAX_TRIAL_WORK)
        found = start_estimates(state, runs=runs, only={job.id}).get(job.id)
        if found is None:
            return None
        begins = max(0, job.begin_at - self._now)
        corrected = _corrected(found, self._now, corrections, kind, reserved_at, begins)
        return replace(corrected, track=track)


def estimate_record(
    own: WaitRange,
    calibrated: WaitRange,
    estimated_at: float,
    started_at: float | None,
    kind: str,
    now: float,
    published: WaitRange | None = None,
) -> EstimateRecord:
    """A stored estimate as `estimate_starts` needs it at time `now`."""
    until = now if started_at is None else started_at
    waited = max(0.0, until - estimated_at)
    return EstimateRecord(own, calibrated, waited, started_at is not None, kind, published)


def record_kind(job: WaitingJob, policy: Policy) -> str:
    """Estimates made under the same order and preemption, in the same band, correct each other."""
    return f"{policy.order}/{policy.preemption}/{job.priority}"


def affordable_runs(state: QueueState, work: int = MAX_PASS_WORK) -> int:
    """RUNS, or fewer on a large cluster with a long queue, at least FEWEST_RUNS."""
    jobs = len(state.waiting) + len(state.arrivals)
    size = max(1, jobs * (len(state.total) + jobs // 6))
    return max(MIN_RUNS, min(RUNS, work // size))


def after_plan(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """The snapshot once the plan is carried out: placed jobs run, preempted ones are stopping."""
    placed = {place.job: place for place in plan.placements}
    stopping = {each.job for each in plan.preemptions}
    running = [
        replace(held, stopping=held.stopping or held.job.id in stopping)
        for held in snapshot.running
    ]
    running += [
        RunningJob(job, placed[job.id].replicas, snapshot.now)
        for job in snapshot.jobs
        if job.id in placed
    ]
    left = tuple(job for job in snapshot.jobs if job.id not in placed)
    return replace(snapshot, jobs=left, running=tuple(running))


def _simulated_queue(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """`after_plan` with only those waiting jobs that are simulated."""
    after = after_plan(snapshot, plan)
    ids = {
        deferral.job
        for deferral in plan.deferrals[:MAX_QUEUE_POSITION]
        if deferral.reason.code.kind.is_simulated
    }
    return replace(after, jobs=tuple(job for job in after.jobs if job.id in ids))


def _factor(snapshot: ClusterSnapshot, policy: Policy) -> OwnerFactor | None:
    """How the fair order weighs owners now; the simulation keeps it constant."""
    if policy.order is not OrderMode.FAIR or not snapshot.owners:
        return None
    return FairShares(
        snapshot.owners,
        cluster_totals(snapshot),
        half_life_seconds=policy.half_life_seconds,
        waiting_owners={(job.project, job.user) for job in snapshot.jobs},
    ).factor


def _corrected(
    estimate: Estimate,
    now: int,
    corrections: Corrections,
    kind: str,
    reserved_at: int | None,
    begins: int,
) -> PassEstimate:
    """`begins`: seconds until the begin time; only the wait after that is corrected."""
    own = _waits(estimate, now)
    corrected = corrections.apply(_waits(estimate, now + begins))
    if begins:
        kind, corrected = (
            "",
            CalibratedWaits(
                _later(corrected.published, begins), _later(corrected.calibrated, begins)
            ),
        )
    latest = now + max(own.pessimistic, corrected.published.pessimistic)
    basis = estimate.basis
    if corrections.samples >= MIN_RECORDS:
        basis = make_message("basis.corrected", first=basis, known=corrections.samples)
    if reserved_at is not None:
        latest = max(now, reserved_at)
        basis = make_message("basis.reserved", first=basis)
    low, middle, high = (
        round(min(now + wait, latest))
        for wait in (
            corrected.published.optimistic,
            corrected.published.expected,
            corrected.published.pessimistic,
        )
    )
    return PassEstimate(
        low, middle, high, basis, own=own, calibrated=corrected.calibrated, kind=kind
    )


def _waits(estimate: Estimate, now: int) -> WaitRange:
    return WaitRange(
        float(estimate.optimistic - now),
        float(estimate.expected - now),
        float(estimate.pessimistic - now),
    )


def _later(waits: WaitRange, seconds: int) -> WaitRange:
    return WaitRange(
        waits.optimistic + seconds, waits.expected + seconds, waits.pessimistic + seconds
    )
