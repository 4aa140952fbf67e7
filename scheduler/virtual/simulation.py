"""Recorded jobs on a cluster under a virtual clock, driven by the production planner.

Every event asks `plan` what to do and does it: places start at once, preempted jobs stop at once
and queue again with what they have done. An idle slice is deleted or made in CARVE_SECONDS.
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

# How long it takes until idle slices are deleted, or one is made: a round or two of a node's agent.
CARVE_SECONDS = 5
# Where the order itself stops running work, turns change as jobs age and others end.
RECHECK_SECONDS = 3_600
# Who stops makes room for who starts in the next pass of the same moment; it settles in a few.
MAX_PASSES = 30


class SimulationObserver:
    """Looks on. What a subclass does not take up is not looked at."""

    def on_pass(self, snapshot: ClusterSnapshot, found: Plan) -> None:
        """A pass, before it is carried out."""

    def on_start(self, job: WaitingJob, now: int) -> None:
        """A job starts for the first time."""

    def on_end(self, job: WaitingJob, now: int, ran_seconds: int) -> None:
        """A job ends after so much useful running, all its runs together."""


class Simulation:
    """`fates`: what becomes of every job, by id. `passes`: how often the planner was asked.
    `mix`: what the planner knows of the demand."""

    def __init__(
        self,
        setting: Scenario,
        week: RecordedWindow,
        *,
        mix: DemandMix = DemandMix(),  # noqa: B008 - frozen
        stops: PreemptionCosts = PreemptionCosts(),  # noqa: B008 - frozen
        watch: SimulationObserver | None = None,
    ) -> None:
        self.scenario = setting
        self.outcomes = {
            r.job.id: JobOutcome(r, r.ran_seconds, r.job.attained_seconds) for r in week.jobs
        }
        self.passes = 0
        self._since, self._stops, self._watch = week.since, stops, watch or SimulationObserver()
        self._policy = setting.policy
        self._cluster = VirtualCluster(setting, week, mix)
        self._clock = VirtualClock()
        before = ClusterSnapshot(now=week.since, nodes=setting.nodes, history=setting.history)
        is_fair = setting.policy.order is OrderMode.FAIR
        self._outlook = RuntimeModel.from_snapshot(before) if is_fair else None
        self._kept = PassCache()
        self._over: set[str] = set()
        self._tell_over: Callable[[], object] = lambda: None

    @property
    def wait_seconds(self) -> Counter[str]:
        """Seconds that counted jobs waited, by reason code."""
        return self._cluster.totals.wait_seconds

    @property
    def allocated_unit_seconds(self) -> Counter[str]:
        """Unit-seconds inside the window, by board key."""
        return self._cluster.totals.allocated_unit_seconds

    def run(self, over: Callable[[], object] = lambda: None) -> None:
        """Play until nothing happens any more. `over` is called for each job that is done with:
        it ended, was refused or withdrawn; who still waits then never starts here."""
        self._tell_over = over
        for fate in self.outcomes.values():
            self._comes(fate)
        while (now := self._clock.next_at) is not None:
            self._cluster.totals.advance_to(now)
            if self._clock.run_due(now):
                self._decide(now)

    def snapshot(self, now: int) -> ClusterSnapshot:
        return self._cluster.snapshot(now)

    def _comes(self, fate: JobOutcome) -> None:
        """What held devices already is there a second before the window begins."""
        key, since = fate.recorded.job.id, self._since
        arrives = (
            since - 1 if fate.recorded.was_running else max(since, fate.recorded.job.queued_at)
        )
        self._clock.schedule(arrives, lambda now: self._arrive(key, now))
        if fate.recorded.withdrawn_at:
            leaves = max(arrives, fate.recorded.withdrawn_at)
            self._clock.schedule(leaves, lambda now: self._withdraw(key, now))

    def _arrive(self, key: str, now: int) -> bool:
        fate = self.outcomes[key]
        fate.queued_at = now
        job = fate.recorded.job
        # Who waited before the window keeps its age; who is waited for may be over already.
        job = replace(job, after=tuple(other for other in job.after if other not in self._over))
        self._cluster.waiting[key] = job
        if self._outlook:
            self._outlook.add_job(job, gpus_needed(job, self._cluster.boards))
        if job.begin_at > now:
            self._clock.recheck_at(job.begin_at)
        return True

    def _withdraw(self, key: str, now: int) -> bool:
        """It was taken back while it waited. Here it may have started before: then it goes on."""
        fate = self.outcomes[key]
        if key not in self._cluster.waiting or fate.run:
            return False
        self._leave(key, now)
        fate.withdrawn = True
        return True

    def _leave(self, key: str, now: int) -> None:
        """Out of the queue for good."""
        fate = self.outcomes[key]
        del self._cluster.waiting[key]
        fate.waited_seconds += now - fate.queued_at
        fate.ended_at = now
        if self._outlook:
            self._outlook.cut_off(key, fate.done_seconds)
        self._is_over(key)

    def _is_over(self, key: str) -> None:
        self._over.add(key)
        self._cluster.clear_dependency(key)
        self._tell_over()

    def _decide(self, now: int) -> None:
        waiting, why = self._cluster.waiting, dict[str, str]()
        for _ in range(MAX_PASSES):
            if not waiting:
                break
            snapshot = self.snapshot(now)
            found = plan(snapshot, self._policy, self._outlook, self._kept)
            self.passes += 1
            self._watch.on_pass(snapshot, found)
            self._carry_out(found, now)
            why = {hold.job: str(hold.reason.code) for hold in found.deferrals}
            if not found.preemptions:
                break
        counted = (key for key in waiting if self.outcomes[key].recorded.is_counted)
        self._cluster.totals.set_waiting(why.get(key, str(ReasonCode.RESOURCES)) for key in counted)
        ages = self._policy.preemption is PreemptionMode.ORDER and self._outlook is not None
        if ages and waiting and self._cluster.running:
            self._clock.recheck_at(now + RECHECK_SECONDS, RECHECK_SECONDS)

    def _carry_out(self, found: Plan, now: int) -> None:
        for hold in found.deferrals:
            self._refuse(hold, now)
        for stop in found.preemptions:
            self._stop(stop, now)
        self._start_all(found, now)
        for merge in found.merges:
            self._merge(merge, now)
        for carve in found.carves:
            self._carve(carve, now)
        for job in found.bypassed:
            self._bypass(job)

    def _refuse(self, hold: Deferral, now: int) -> None:
        if hold.reason.code is ReasonCode.IMPOSSIBLE:
            self._leave(hold.job, now)
            self.outcomes[hold.job].refused = True

    def _start_all(self, found: Plan, now: int) -> None:
        """As the committer does, ask again where the plan counts on what others leave: a MIG slice
        that somebody left stands in the way of a whole GPU or a share until it is deleted."""
        ledger = Ledger(self.snapshot(now)) if found.preemptions and found.placements else None
        for place in found.placements:
            job = self._cluster.waiting[place.job]
            if ledger is None or reserve_if_legal(place, job, ledger) is None:
                self._start(place, now)

    def _start(self, place: JobPlacement, now: int) -> None:
        fate, key = self.outcomes[place.job], place.job
        if not fate.run:
            self._watch.on_start(fate.recorded.job, now)
        fate.waited_seconds += now - fate.queued_at
        fate.restart_seconds = self._stops.restart_seconds if fate.run else 0
        fate.started_at, fate.bypassed = now, 0
        fate.run += 1
        # The time to start again is not useful: the end of its limit moves by as much.
        job = self._cluster.start(place, now, max(0, fate.done_seconds - fate.restart_seconds)).job
        if self._outlook:
            self._outlook.update_attained(key, fate.done_seconds, now + fate.restart_seconds)
        number = fate.run
        self._clock.schedule(
            now + fate.restart_seconds + fate.remaining_seconds,
            lambda then: self._end(key, number, then),
        )
        protected = self._policy.protection_seconds << min(job.preempted, 20)
        if protected and job.preemptible and self._policy.preemption is not PreemptionMode.OFF:
            self._clock.recheck_at(now + protected, self._stops.recheck_seconds)

    def _end(self, key: str, run: int, now: int) -> bool:
        fate = self.outcomes[key]
        if run != fate.run or key not in self._cluster.running:
            return False
        self._cluster.stop(key, now)
        fate.done_seconds, fate.remaining_seconds, fate.ended_at = (
            fate.done_seconds + fate.remaining_seconds,
            0,
            now,
        )
        if self._outlook:
            told = self._outlook.complete if fate.recorded.completed else self._outlook.cut_off
            told(key, fate.done_seconds)
        self._watch.on_end(fate.recorded.job, now, fate.done_seconds)
        self._is_over(key)
        return True

    def _stop(self, stop: Preemption, now: int) -> None:
        fate, job = self.outcomes[stop.job], self._cluster.stop(stop.job, now)
        useful = max(0, now - fate.started_at - fate.restart_seconds)
        fate.remaining_seconds, fate.done_seconds = (
            fate.remaining_seconds - useful,
            fate.done_seconds + useful,
        )
        fate.run += 1
        fate.stops += 1
        is_move = stop.cause is PreemptionCause.MOVE
        fate.queued_at = now
        self._cluster.waiting[stop.job] = replace(
            job,
            attained_seconds=fate.done_seconds,
            queued_at=job.queued_at if self._stops.keeps_place else now,
            preempted=job.preempted + (self._stops.moves_extend_protection or not is_move),
        )
        if self._outlook:
            self._outlook.update_attained(stop.job, fate.done_seconds)

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
        """The planner only asks whether the limit is reached."""
        fate = self.outcomes[key]
        fate.bypassed += 1
        if fate.bypassed >= self._policy.bypass_limit:
            self._cluster.set_bypassed(key, fate.bypassed)
