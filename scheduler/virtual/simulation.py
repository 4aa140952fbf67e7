"""The event loop: recorded jobs on a virtual cluster, driven by the production planner.

After every event the simulation calls `plan` and carries it out: placed jobs start at once,
preempted ones stop at once and queue again with what they have done. Deleting or making an idle
slice takes CARVE_SECONDS.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from scheduler.core.forecast.runtime_model import RuntimeModel, gpus_needed
from scheduler.core.model.decisions import (
    Carve,
    Deferral,
    JobPlacement,
    Merge,
    Plan,
    Preemption,
    PreemptionCause,
)
from scheduler.core.model.policy import OrderMode, PreemptionMode
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import ClusterSnapshot, DemandMix, WaitingJob
from scheduler.core.pass_cache import PassCache
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.legality import reserve_if_legal
from scheduler.core.plan import plan
from scheduler.virtual.clock import VirtualClock
from scheduler.virtual.cluster import VirtualCluster
from scheduler.virtual.job_outcomes import JobOutcome
from scheduler.virtual.values import PreemptionCosts, RecordedWindow, Scenario

# How long deleting idle slices or making one takes: a round or two of a node's agent.
CARVE_SECONDS = 5
# With preemption by order, ranks change as jobs age; plan again this often.
RECHECK_SECONDS = 3_600
# A stop makes room for a start in the next pass of the same moment; this settles in a few passes.
MAX_PASSES = 30


class SimulationObserver:
    """Callbacks of a simulation; a subclass overrides those it needs."""

    def on_pass(self, snapshot: ClusterSnapshot, plan: Plan) -> None:
        """A planning pass, before its plan is carried out."""

    def on_start(self, job: WaitingJob, now: int) -> None:
        """A job starts for the first time."""

    def on_end(self, job: WaitingJob, now: int, ran_seconds: int) -> None:
        """A job ends after `ran_seconds` of useful running, all its runs together."""


class Simulation:
    """Plays the jobs of `window` on the cluster of `scenario`. `mix`: the demand that the planner
    knows of."""

    def __init__(
        self,
        scenario: Scenario,
        window: RecordedWindow,
        *,
        mix: DemandMix = DemandMix(),  # noqa: B008 - frozen
        costs: PreemptionCosts = PreemptionCosts(),  # noqa: B008 - frozen
        observer: SimulationObserver | None = None,
    ) -> None:
        self.scenario = scenario
        self.outcomes = {
            r.job.id: JobOutcome(r, r.ran_seconds, r.job.attained_seconds) for r in window.jobs
        }
        """What became of every job, by id."""
        self.passes = 0
        self._since, self._costs, self._observer = (
            window.since,
            costs,
            observer or SimulationObserver(),
        )
        self._policy = scenario.policy
        self._cluster = VirtualCluster(scenario, window, mix)
        self._clock = VirtualClock()
        before = ClusterSnapshot(now=window.since, nodes=scenario.nodes, history=scenario.history)
        is_fair = scenario.policy.order is OrderMode.FAIR
        self._runtime_model = RuntimeModel.from_snapshot(before) if is_fair else None
        self._cache = PassCache()
        self._over: set[str] = set()
        self._on_job_over: Callable[[], object] = lambda: None

    @property
    def wait_seconds(self) -> Counter[str]:
        """Seconds that counted jobs waited, by reason code."""
        return self._cluster.totals.wait_seconds

    @property
    def allocated_unit_seconds(self) -> Counter[str]:
        """Unit-seconds inside the window, by board key."""
        return self._cluster.totals.allocated_unit_seconds

    def run(self, on_job_over: Callable[[], object] = lambda: None) -> None:
        """Play until no event is left; a job that still waits then can never start here.
        `on_job_over` is called for each job that ended, was refused or was withdrawn."""
        self._on_job_over = on_job_over
        for outcome in self.outcomes.values():
            self._schedule_arrival(outcome)
        while (now := self._clock.next_at) is not None:
            self._cluster.totals.advance_to(now)
            if self._clock.run_due(now):
                self._decide(now)

    def snapshot(self, now: int) -> ClusterSnapshot:
        return self._cluster.snapshot(now)

    def _schedule_arrival(self, outcome: JobOutcome) -> None:
        """Jobs that ran when the window began arrive one second before it."""
        key, since = outcome.recorded.job.id, self._since
        arrives = (
            since - 1
            if outcome.recorded.was_running
            else max(since, outcome.recorded.job.queued_at)
        )
        self._clock.schedule(arrives, lambda now: self._arrive(key, now))
        if outcome.recorded.withdrawn_at:
            leaves = max(arrives, outcome.recorded.withdrawn_at)
            self._clock.schedule(leaves, lambda now: self._withdraw(key, now))

    def _arrive(self, key: str, now: int) -> bool:
        outcome = self.outcomes[key]
        outcome.queued_at = now
        job = outcome.recorded.job
        # A job that waited before the window keeps its age; its dependencies may be over already.
        job = replace(job, after=tuple(other for other in job.after if other not in self._over))
        self._cluster.waiting[key] = job
        if self._runtime_model:
            self._runtime_model.add_job(job, gpus_needed(job, self._cluster.boards))
        if job.begin_at > now:
            self._clock.recheck_at(job.begin_at)
        return True

    def _withdraw(self, key: str, now: int) -> bool:
        """Its user withdrew it while it waited. If it has started here, it goes on."""
        outcome = self.outcomes[key]
        if key not in self._cluster.waiting or outcome.run:
            return False
        self._leave(key, now)
        outcome.withdrawn = True
        return True

    def _leave(self, key: str, now: int) -> None:
        """It leaves the queue for good."""
        outcome = self.outcomes[key]
        del self._cluster.waiting[key]
        outcome.waited_seconds += now - outcome.queued_at
        outcome.ended_at = now
        if self._runtime_model:
            self._runtime_model.cut_off(key, outcome.done_seconds)
        self._is_over(key)

    def _is_over(self, key: str) -> None:
        self._over.add(key)
        self._cluster.clear_dependency(key)
        self._on_job_over()

    def _decide(self, now: int) -> None:
        waiting, why = self._cluster.waiting, dict[str, str]()
        for _ in range(MAX_PASSES):
            if not waiting:
                break
            snapshot = self.snapshot(now)
            decided = plan(snapshot, self._policy, self._runtime_model, self._cache)
            self.passes += 1
            self._observer.on_pass(snapshot, decided)
            self._carry_out(decided, now)
            why = {deferral.job: str(deferral.reason.code) for deferral in decided.deferrals}
            if not decided.preemptions:
                break
        counted = (key for key in waiting if self.outcomes[key].recorded.is_counted)
        self._cluster.totals.set_waiting(why.get(key, str(ReasonCode.RESOURCES)) for key in counted)
        ages = self._policy.preemption is PreemptionMode.ORDER and self._runtime_model is not None
        if ages and waiting and self._cluster.running:
            self._clock.recheck_at(now + RECHECK_SECONDS, RECHECK_SECONDS)

    def _carry_out(self, decided: Plan, now: int) -> None:
        for deferral in decided.deferrals:
            self._refuse(deferral, now)
        for stop in decided.preemptions:
            self._stop(stop, now)
        self._start_all(decided, now)
        for merge in decided.merges:
            self._merge(merge, now)
        for carve in decided.carves:
            self._carve(carve, now)
        for job in decided.bypassed:
            self._bypass(job)

    def _refuse(self, deferral: Deferral, now: int) -> None:
        if deferral.reason.code is ReasonCode.IMPOSSIBLE:
            self._leave(deferral.job, now)
            self.outcomes[deferral.job].refused = True

    def _start_all(self, decided: Plan, now: int) -> None:
        """As in production, check placements again if the plan counts on stopping jobs: a MIG slice
        left by one of them blocks a whole GPU or a share until it is deleted."""
        ledger = Ledger(self.snapshot(now)) if decided.preemptions and decided.placements else None
        for place in decided.placements:
            job = self._cluster.waiting[place.job]
            if ledger is None or reserve_if_legal(place, job, ledger) is None:
                self._start(place, now)

    def _start(self, place: JobPlacement, now: int) -> None:
        outcome, key = self.outcomes[place.job], place.job
        if not outcome.run:
            self._observer.on_start(outcome.recorded.job, now)
        outcome.waited_seconds += now - outcome.queued_at
        outcome.restart_seconds = self._costs.restart_seconds if outcome.run else 0
        outcome.started_at, outcome.bypassed = now, 0
        outcome.run += 1
        # The time of a restart is not useful: the end of its limit moves by as much.
        job = self._cluster.start(
            place, now, max(0, outcome.done_seconds - outcome.restart_seconds)
        ).job
        if self._runtime_model:
            self._runtime_model.update_attained(
                key, outcome.done_seconds, now + outcome.restart_seconds
            )
        number = outcome.run
        self._clock.schedule(
            now + outcome.restart_seconds + outcome.remaining_seconds,
            lambda then: self._end(key, number, then),
        )
        protected = self._policy.protection_seconds << min(job.preempted, 20)
        if protected and job.preemptible and self._policy.preemption is not PreemptionMode.OFF:
            self._clock.recheck_at(now + protected, self._costs.recheck_seconds)

    def _end(self, key: str, run: int, now: int) -> bool:
        outcome = self.outcomes[key]
        if run != outcome.run or key not in self._cluster.running:
            return False
        self._cluster.stop(key, now)
        outcome.done_seconds += outcome.remaining_seconds
        outcome.remaining_seconds, outcome.ended_at = 0, now
        if self._runtime_model:
            end = (
                self._runtime_model.complete
                if outcome.recorded.completed
                else self._runtime_model.cut_off
            )
            end(key, outcome.done_seconds)
        self._observer.on_end(outcome.recorded.job, now, outcome.done_seconds)
        self._is_over(key)
        return True

    def _stop(self, stop: Preemption, now: int) -> None:
        outcome, job = self.outcomes[stop.job], self._cluster.stop(stop.job, now)
        useful = max(0, now - outcome.started_at - outcome.restart_seconds)
        outcome.remaining_seconds -= useful
        outcome.done_seconds += useful
        outcome.run += 1
        outcome.stops += 1
        is_move = stop.cause is PreemptionCause.MOVE
        outcome.queued_at = now
        self._cluster.waiting[stop.job] = replace(
            job,
            attained_seconds=outcome.done_seconds,
            queued_at=job.queued_at if self._costs.keeps_place else now,
            preempted=job.preempted + (self._costs.moves_extend_protection or not is_move),
        )
        if self._runtime_model:
            self._runtime_model.update_attained(stop.job, outcome.done_seconds)

    def _merge(self, merge: Merge, now: int) -> None:
        self._cluster.delete(merge)
        settles_at = now + CARVE_SECONDS + self.scenario.dwell_seconds

        def gone(then: int) -> bool:
            self._cluster.deleted(merge, settles_at)
            return True

        self._clock.schedule(now + CARVE_SECONDS, gone)
        self._clock.recheck_at(settles_at)

    def _carve(self, carve: Carve, now: int) -> None:
        key = self._cluster.carve(carve)

        def made(then: int) -> bool:
            self._cluster.carved(carve.gpu, key)
            return True

        self._clock.schedule(now + CARVE_SECONDS, made)

    def _bypass(self, key: str) -> None:
        """The planner needs to know only whether the limit is reached."""
        outcome = self.outcomes[key]
        outcome.bypassed += 1
        if outcome.bypassed >= self._policy.bypass_limit:
            self._cluster.set_bypassed(key, outcome.bypassed)
