"""What one planning pass tells its waiting jobs: when they will start, and what that rests on."""

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
from scheduler.core.model.decisions import Estimate, Plan
from scheduler.core.model.message import make_message
from scheduler.core.model.policy import OrderMode, Policy, PreemptionMode
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import ClusterSnapshot, RunningJob, WaitingJob
from scheduler.core.queue.fairshare import FairShares, cluster_totals

SIMULATED_REASONS = frozenset(
    {
        ReasonCode.PRIORITY,
        ReasonCode.RESOURCES,
        ReasonCode.FRAGMENTATION,
        ReasonCode.TOPOLOGY,
        ReasonCode.RESERVATION,
        ReasonCode.REPARTITION,
        ReasonCode.BEGIN_TIME,
    }
)
"""Who waits for these waits for devices, now or from its begin time on. The other reasons are not
simulated: a quota, a budget, an approval, another job's end, a node that is away."""
MIN_RUNS = 8
MAX_PASS_WORK = 30_000_000
"""Runs x jobs x (nodes + jobs / 6) that are simulated, about a second of one core."""
MAX_TRIAL_WORK = 3_000_000
"""The same for one newcomer, while somebody waits for the answer."""
MAX_QUEUE_POSITION = 4_000
"""Who stands further back in the order of the pass is neither simulated nor told anything."""
LATE_SECONDS = 600
"""Who is told its start so long after it was queued could not be told before: nothing had a basis,
or a quota kept it. Many such are told at one moment and share what is wrong with it, and they are
the ones that wait long; so their answers correct nobody."""


@dataclass(frozen=True, slots=True)
class PassEstimate(Estimate):
    """An estimate, and what is to be kept with it for `Question`: `own` and `calibrated` are waits
    in seconds from the snapshot's time, `kind` is what questions are alike in; empty where the
    answer tells nothing of others: it is late, or part of the wait is for a begin time. Without
    `is_published` it is a question to learn from, and nobody is told it."""

    own: WaitRange
    calibrated: WaitRange
    kind: str
    is_published: bool = True


def estimate_starts(
    snapshot: ClusterSnapshot,
    policy: Policy,
    runtime_model: RuntimeModel,
    plan: Plan,
    records: Sequence[EstimateRecord] = (),
    seed: int = 0,
) -> dict[str, PassEstimate]:
    """When the jobs that this pass left waiting will start, by job id.

    `questions`: the first one of each earlier job, oldest first, as told by `question_of`. A job
    has no estimate where there is no basis: fewer than BASIS runs have ended, it is far back
    (LONGEST) or blocked by what is not simulated (FORETOLD). Where the policy stops jobs for others
    by their turn, estimates are not told until NEEDS questions say what comes of that. Who holds a
    reservation starts by then at the latest; nobody starts before its begin time.
    """
    if runtime_model.runs < MIN_ENDED_RUNS:
        return {}
    after = after_plan(snapshot, plan)
    waits = {
        hold.job
        for hold in plan.deferrals[:MAX_QUEUE_POSITION]
        if hold.reason.code in SIMULATED_REASONS
    }
    jobs = tuple(job for job in after.jobs if job.id in waits)
    if not jobs:
        return {}
    kinds = {job.id: record_kind(job, policy) for job in jobs}
    corrections = {kind: Corrections.from_records(records, kind) for kind in set(kinds.values())}
    by_turn = policy.preemption is PreemptionMode.ORDER
    told = {
        id for id, kind in kinds.items() if not by_turn or corrections[kind].samples >= MIN_RECORDS
    }
    state = queue_state(replace(after, jobs=jobs), policy, runtime_model, _factor(snapshot, policy))
    found = start_estimates(state, runs=affordable_runs(state), seed=seed, only=set(kinds))
    promised = {each.job: each.starts_at for each in plan.reservations}
    begins = {job.id: job.begin_at - snapshot.now for job in jobs if job.begin_at > snapshot.now}
    late = {job.id for job in jobs if snapshot.now - job.queued_at > LATE_SECONDS}
    return {
        id: replace(
            _told(
                *(estimate, snapshot.now, corrections[kinds[id]], "" if id in late else kinds[id]),
                promised.get(id),
                begins.get(id, 0),
            ),
            is_published=id in told,
        )
        for id, estimate in found.items()
        if estimate is not None
    }


class TrialEstimates:
    """When somebody who joins the queue now would start: as `starts_of` tells it in the next pass,
    from fewer forecasts where the queue is long."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        policy: Policy,
        outlook: RuntimeModel,
        plan: Plan,
        questions: Sequence[EstimateRecord] = (),
    ) -> None:
        self._now, self._policy, self._questions = snapshot.now, policy, questions
        self._is_known = outlook.runs >= MIN_ENDED_RUNS
        after = after_plan(snapshot, plan)
        waits = {
            hold.job
            for hold in plan.deferrals[:MAX_QUEUE_POSITION]
            if hold.reason.code in SIMULATED_REASONS
        }
        jobs = tuple(job for job in after.jobs if job.id in waits)
        self._queue = TrialQueueState(
            replace(after, jobs=jobs), policy, outlook, _factor(snapshot, policy)
        )

    def estimate(
        self, job: WaitingJob, code: ReasonCode, promised: int | None
    ) -> PassEstimate | None:
        """`code`: why it would wait; `promised`: from when on it has its place for sure. None where
        there is no basis."""
        if not self._is_known or code not in SIMULATED_REASONS:
            return None
        kind = record_kind(job, self._policy)
        corrections = Corrections.from_records(self._questions, kind)
        by_turn = self._policy.preemption is PreemptionMode.ORDER
        if by_turn and corrections.samples < MIN_RECORDS:
            return None
        state = self._queue.with_job(job)
        runs = affordable_runs(state, MAX_TRIAL_WORK)
        found = start_estimates(state, runs=runs, only={job.id}).get(job.id)
        if found is None:
            return None
        begins = max(0, job.begin_at - self._now)
        return _told(found, self._now, corrections, kind, promised, begins)


def estimate_record(
    own: WaitRange,
    calibrated: WaitRange,
    estimated_at: float,
    started_at: float | None,
    kind: str,
    now: float,
) -> EstimateRecord:
    """A kept question as `starts_of` wants it at time `now`."""
    until = now if started_at is None else started_at
    return EstimateRecord(
        own, calibrated, max(0.0, until - estimated_at), started_at is not None, kind
    )


def record_kind(job: WaitingJob, policy: Policy) -> str:
    """Questions are alike if asked under the same order and preemption, in the same band."""
    return f"{policy.order}/{policy.preemption}/{job.priority}"


def affordable_runs(state: QueueState, work: int = MAX_PASS_WORK) -> int:
    """RUNS, or fewer on a large cluster with a long queue, at least FEWEST_RUNS."""
    jobs = len(state.waiting) + len(state.arrivals)
    size = max(1, jobs * (len(state.total) + jobs // 6))
    return max(MIN_RUNS, min(RUNS, work // size))


def after_plan(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """The snapshot as it is when the pass is done: placed jobs run, preempted ones give back."""
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


def _factor(snapshot: ClusterSnapshot, policy: Policy) -> OwnerFactor | None:
    """How the fair order weighs owners now; the forecast leaves it as it is."""
    if policy.order is not OrderMode.FAIR or not snapshot.owners:
        return None
    return FairShares(
        snapshot.owners,
        cluster_totals(snapshot),
        half_life_seconds=policy.half_life_seconds,
        waiting_owners={(job.project, job.user) for job in snapshot.jobs},
    ).factor


def _told(
    estimate: Estimate,
    now: int,
    corrections: Corrections,
    kind: str,
    promised: int | None,
    begins: int,
) -> PassEstimate:
    """`begins`: in so many seconds; only the wait after that is corrected."""
    own = _waits(estimate, now)
    answer = corrections.apply(_waits(estimate, now + begins))
    if begins:
        kind, answer = (
            "",
            CalibratedWaits(_later(answer.published, begins), _later(answer.calibrated, begins)),
        )
    latest = now + max(own.pessimistic, answer.published.pessimistic)
    basis = estimate.basis
    if corrections.samples >= MIN_RECORDS:
        basis = make_message("basis.corrected", first=basis, known=corrections.samples)
    if promised is not None:
        latest = max(now, promised)
        basis = make_message("basis.reserved", first=basis)
    low, middle, high = (
        round(min(now + wait, latest))
        for wait in (
            answer.published.optimistic,
            answer.published.expected,
            answer.published.pessimistic,
        )
    )
    return PassEstimate(low, middle, high, basis, own=own, calibrated=answer.calibrated, kind=kind)


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
