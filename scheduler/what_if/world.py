"""Recorded jobs on a cluster under a virtual clock, driven by the production planner.

Every event asks `plan` what to do and does it: places start at once, preempted jobs stop at once
and queue again with what they have done. An idle slice is deleted or made in CARVE_SECONDS.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Protocol

from scheduler.core.decisions import Carve, Hold, Merge, Place, Plan, Preempt
from scheduler.core.forecast.outlook import Outlook, gpus_of
from scheduler.core.placement.kept import Kept
from scheduler.core.placement.wants import gpu_board
from scheduler.core.plan import plan
from scheduler.core.policy import Order, Preemption
from scheduler.core.quota.holders import board_of_gpus
from scheduler.core.reasons import ReasonCode
from scheduler.core.values import ClusterSnapshot, RunningJob, WaitingJob
from scheduler.what_if.devices import Devices
from scheduler.what_if.fates import Fate, mix_of
from scheduler.what_if.usage import Usage
from scheduler.what_if.values import Setting, Week

# How long it takes until idle slices are deleted, or one is made: a round or two of a node's agent.
CARVE_SECONDS = 5
# Where the order itself stops running work, turns change as jobs age.
LEARN_SECONDS = 3_600
# Who stops makes room for who starts in the next pass of the same moment; it settles in a few.
MOST_PASSES = 30


class Watch(Protocol):
    """Told of every pass before it is carried out."""

    def passed(self, snapshot: ClusterSnapshot, found: Plan) -> None: ...


class World:
    """`fates`: every job by id. `held_for`: seconds that counted jobs waited, by reason code.
    `allocated`: unit-seconds inside the window, by board key."""

    def __init__(self, setting: Setting, week: Week, watch: Watch | None = None) -> None:
        self.setting = setting
        self.fates = {r.job.id: Fate(r, r.ran_seconds, r.job.attained_seconds) for r in week.jobs}
        self.held_for: Counter[str] = Counter()
        self.allocated: Counter[str] = Counter()
        self.passes = 0
        self._week, self._watch, self._policy = week, watch, setting.policy
        self._devices = Devices(setting.nodes)
        self._boards = board_of_gpus(setting.nodes)
        known = {gpu_board(gpu) for node in setting.nodes for gpu in node.gpus}
        self._asked_of = sorted(known, key=lambda board: board.key)
        self._usage = Usage(
            *(setting.quotas, setting.owners, self._boards),
            since=week.since,
            half_life_seconds=setting.policy.half_life_seconds,
        )
        before = ClusterSnapshot(now=week.since, nodes=setting.nodes, past=setting.past)
        is_fair = setting.policy.order is Order.FAIR
        self._outlook = Outlook.of(before) if is_fair else None
        self._kept = Kept()
        self._mix = mix_of(week.jobs)
        self._waiting: dict[str, WaitingJob] = {}
        self._running: dict[str, RunningJob] = {}
        self._held: Counter[str] = Counter()
        self._why: Counter[str] = Counter()
        self._over: set[str] = set()
        self._events: list[tuple[int, int, Callable[[int], bool]]] = []
        self._order, self._now = count(), 0
        self._looks: set[int] = set()
        self._tell_over: Callable[[], object] = lambda: None

    def run(self, over: Callable[[], object] = lambda: None) -> None:
        """Play until nothing happens any more. `over` is called for each job that is done with:
        it ended, was refused or withdrawn; who still waits then never starts here."""
        self._tell_over = over
        for fate in self.fates.values():
            self._comes(fate)
        while self._events:
            now = self._events[0][0]
            self._pass_time(now)
            changed = False
            while self._events and self._events[0][0] <= now:
                changed |= heapq.heappop(self._events)[2](now)
            if changed:
                self._decide(now)

    def snapshot(self, now: int) -> ClusterSnapshot:
        return ClusterSnapshot(
            now=now,
            nodes=self._devices.nodes,
            jobs=tuple(self._waiting.values()),
            quotas=self._usage.quotas(),
            running=tuple(self._running.values()),
            owners=self._usage.owners(now),
            mix=self._mix,
        )

    def _at(self, when: int, happens: Callable[[int], bool]) -> None:
        heapq.heappush(self._events, (when, next(self._order), happens))

    def _comes(self, fate: Fate) -> None:
        """What held devices already is there a second before the window begins."""
        key, since = fate.recorded.job.id, self._week.since
        arrives = since - 1 if fate.recorded.was_held else max(since, fate.recorded.job.queued_at)
        self._at(arrives, lambda now: self._arrive(key, now))
        if fate.recorded.withdrawn_at:
            leaves = max(arrives, fate.recorded.withdrawn_at)
            self._at(leaves, lambda now: self._withdraw(key, now))

    def _pass_time(self, now: int) -> None:
        seconds = now - self._now if self._now else 0
        for code, jobs in self._why.items():
            self.held_for[code] += jobs * seconds
        inside = min(now, self._week.until) - max(self._now, self._week.since)
        for board, units in self._held.items():
            self.allocated[board] += units * max(0, inside)
        self._now = now

    def _arrive(self, key: str, now: int) -> bool:
        fate = self.fates[key]
        fate.queued_at = now
        job = fate.recorded.job
        # Who waited before the window keeps its age; who is waited for may be over already.
        job = replace(job, after=tuple(other for other in job.after if other not in self._over))
        self._waiting[key] = job
        if self._outlook:
            self._outlook.submitted(job, gpus_of(job, self._asked_of))
        if job.begin_at > now:
            self._look_at(job.begin_at)
        return True

    def _withdraw(self, key: str, now: int) -> bool:
        """It was taken back while it waited. Here it may have started before: then it goes on."""
        fate = self.fates[key]
        if key not in self._waiting or fate.run:
            return False
        self._leave(key, now)
        fate.withdrawn = True
        return True

    def _leave(self, key: str, now: int) -> None:
        """Out of the queue for good."""
        fate = self.fates[key]
        del self._waiting[key]
        fate.waited_seconds += now - fate.queued_at
        fate.ended_at = now
        if self._outlook:
            self._outlook.cut_off(key, fate.done)
        self._is_over(key)

    def _is_over(self, key: str) -> None:
        self._over.add(key)
        for other, job in self._waiting.items():
            if key in job.after:
                after = tuple(each for each in job.after if each != key)
                self._waiting[other] = replace(job, after=after)
        self._tell_over()

    def _decide(self, now: int) -> None:
        why: dict[str, str] = {}
        for _ in range(MOST_PASSES):
            if not self._waiting:
                break
            snapshot = self.snapshot(now)
            found = plan(snapshot, self._policy, self._outlook, self._kept)
            self.passes += 1
            if self._watch:
                self._watch.passed(snapshot, found)
            self._carry_out(found, now)
            why = {hold.job: str(hold.reason.code) for hold in found.holds}
            if not found.preempts:
                break
        counted = (key for key in self._waiting if self.fates[key].recorded.is_counted)
        self._why = Counter(why.get(key, str(ReasonCode.RESOURCES)) for key in counted)
        ages = self._policy.preemption is Preemption.ORDER
        if ages and self._waiting and self._running:
            self._look_at(-(-(now + 1) // LEARN_SECONDS) * LEARN_SECONDS)

    def _carry_out(self, found: Plan, now: int) -> None:
        for hold in found.holds:
            self._refuse(hold, now)
        for stop in found.preempts:
            self._stop(stop, now)
        for place in found.places:
            self._start(place, now)
        for merge in found.merges:
            self._merge(merge, now)
        for carve in found.carves:
            self._carve(carve, now)
        for job in found.bypassed:
            self._bypass(job)

    def _refuse(self, hold: Hold, now: int) -> None:
        if hold.reason.code is ReasonCode.IMPOSSIBLE:
            self._leave(hold.job, now)
            self.fates[hold.job].refused = True

    def _start(self, place: Place, now: int) -> None:
        fate, job = self.fates[place.job], self._waiting.pop(place.job)
        fate.waited_seconds += now - fate.queued_at
        fate.started_at, fate.bypassed = now, 0
        fate.run += 1
        job = replace(job, attained_seconds=fate.done, bypassed=0)
        run = RunningJob(job, self._devices.take(job, place.replicas), now)
        self._running[job.id] = run
        self._usage.started(run)
        self._hold(run, 1)
        if self._outlook:
            self._outlook.attained(job.id, fate.done, now)
        number = fate.run
        self._at(now + fate.left, lambda then: self._end(job.id, number, then))
        if job.preemptible and self._policy.preemption is not Preemption.OFF:
            self._look_at(now + (self._policy.protection_seconds << min(job.preempted, 20)))

    def _end(self, key: str, run: int, now: int) -> bool:
        fate = self.fates[key]
        if run != fate.run or key not in self._running:
            return False
        self._free(key, now)
        fate.done, fate.left, fate.ended_at = fate.done + fate.left, 0, now
        if self._outlook:
            told = self._outlook.completed if fate.recorded.completed else self._outlook.cut_off
            told(key, fate.done)
        self._is_over(key)
        return True

    def _stop(self, stop: Preempt, now: int) -> None:
        fate, job = self.fates[stop.job], self._free(stop.job, now)
        useful = now - fate.started_at
        fate.left, fate.done = fate.left - useful, fate.done + useful
        fate.run += 1
        fate.stopped += 1
        fate.queued_at = now
        self._waiting[stop.job] = replace(
            job, attained_seconds=fate.done, preempted=job.preempted + 1
        )
        if self._outlook:
            self._outlook.attained(stop.job, fate.done)

    def _free(self, key: str, now: int) -> WaitingJob:
        run = self._running.pop(key)
        self._devices.give_back(run)
        self._usage.ended(run, now)
        self._hold(run, -1)
        return run.job

    def _hold(self, run: RunningJob, sign: int) -> None:
        for replica in run.replicas:
            for device in replica.devices:
                self._held[self._boards[device.gpu]] += sign * device.units

    def _merge(self, merge: Merge, now: int) -> None:
        self._devices.delete(merge)
        settles_at = now + CARVE_SECONDS + self.setting.dwell_seconds

        def gone(then: int) -> bool:
            self._devices.deleted(merge, settles_at)
            return True

        self._at(now + CARVE_SECONDS, gone)
        self._look_at(settles_at)

    def _carve(self, carve: Carve, now: int) -> None:
        key = self._devices.carve(carve)

        def made(then: int) -> bool:
            self._devices.carved(carve.gpu, key)
            return True

        self._at(now + CARVE_SECONDS, made)

    def _bypass(self, key: str) -> None:
        """The planner only asks whether the limit is reached."""
        fate = self.fates[key]
        fate.bypassed += 1
        if fate.bypassed >= self._policy.bypass_limit and key in self._waiting:
            self._waiting[key] = replace(self._waiting[key], bypassed=fate.bypassed)

    def _look_at(self, when: int) -> None:
        if when in self._looks:
            return
        self._looks.add(when)

        def look(now: int) -> bool:
            self._looks.discard(when)
            return True

        self._at(when, look)
