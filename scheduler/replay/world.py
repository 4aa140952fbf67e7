"""A cluster of whole GPUs under a virtual clock, driven by the production planner.

Every event asks `plan` what to do and does it: places start at once, preempted jobs stop at once
and come back with what they have done. Times in whole seconds. One board, CPU and memory ample.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

from agents.contract.boards import Board
from agents.contract.documents import GpuMode, SliceKind
from scheduler.core.decisions import Place, Plan, Preempt, PreemptCause
from scheduler.core.forecast.outlook import Outlook
from scheduler.core.placement.kept import Kept
from scheduler.core.plan import plan
from scheduler.core.policy import Order, Policy, Preemption
from scheduler.core.values import (
    ClusterSnapshot,
    GpuView,
    NodeView,
    ReplicaPlace,
    RunningJob,
    SliceView,
    WaitingJob,
)

# Ends of protection, and what is learned as jobs run, are looked at on this grid.
LOOK_SECONDS = 360
LEARN_SECONDS = 3_600
# Who stops makes room for who starts in the next pass of the same moment; it settles in a few.
MOST_PASSES = 30


class Watch(Protocol):
    """Told of every job as it is submitted and first started, with the world as it is then, and as
    it ends."""

    def submitted(self, job: WaitingJob, snapshot: ClusterSnapshot, found: Plan) -> None: ...

    def started(self, job: WaitingJob, now: int) -> None: ...

    def ended(self, job: WaitingJob, now: int, ran_seconds: int) -> None: ...


@dataclass(slots=True)
class Work:
    """A job's own truth, which the planner never sees. `left`: seconds of useful running."""

    job: WaitingJob
    submitted_at: int
    seconds: int
    left: int
    done: int = 0
    begun: bool = False
    overhead: int = 0
    started_at: int = 0
    ended_at: int = 0
    run: int = 0
    stopped: int = 0
    moved: int = 0
    bypassed: int = 0


class World:
    """`work`: every job of the trace by id, afterwards with its times."""

    def __init__(
        self,
        nodes: int,
        gpus_per_node: int,
        board: Board,
        policy: Policy,
        *,
        restart_cost: int = 0,
        watch: Watch | None = None,
    ) -> None:
        self.policy = policy
        self.work: dict[str, Work] = {}
        self.passes = 0
        self._kept = Kept()
        self._restart_cost = restart_cost
        self._watch = watch
        self._outlook = Outlook() if policy.order is Order.FAIR else None
        self._nodes = {name: _node(name, gpus_per_node, board) for name in _names(nodes)}
        self._waiting: dict[str, WaitingJob] = {}
        self._running: dict[str, RunningJob] = {}
        self._events: list[tuple[int, int, str, int]] = []
        self._order = count()
        self._looks: set[int] = set()
        self._new: list[str] = []

    def run(self, work: Iterable[Work], ended: Callable[[], object] = lambda: None) -> None:
        """Play until every job has ended. `ended` is called for each of them."""
        for item in work:
            self.work[item.job.id] = item
            self._at(item.submitted_at, item.job.id, 0)
        while self._events:
            now = self._events[0][0]
            changed = False
            while self._events and self._events[0][0] <= now:
                _, _, job, run = heapq.heappop(self._events)
                changed |= self._happens(job, run, now, ended)
            if changed and self._waiting:
                self._decide(now)
        if self._waiting:
            raise ValueError(f"{len(self._waiting)} jobs can never run here")

    def _at(self, when: int, job: str, run: int) -> None:
        heapq.heappush(self._events, (when, next(self._order), job, run))

    def _happens(self, job: str, run: int, now: int, ended: Callable[[], object]) -> bool:
        """An arrival (run 0), the end of a run, or with no job a time to look again."""
        if not job:
            self._looks.discard(now)
            return True
        work = self.work[job]
        if run == 0:
            self._waiting[job] = work.job
            self._new.append(job)
            if self._outlook:
                self._outlook.submitted(work.job, _gpus(work.job))
            return True
        if run != work.run:
            return False
        self._vacate(self._running.pop(job))
        work.ended_at, work.left = now, 0
        if self._outlook:
            self._outlook.completed(job, work.seconds)
        if self._watch:
            self._watch.ended(work.job, now, work.seconds)
        ended()
        return True

    def _decide(self, now: int) -> None:
        for _ in range(MOST_PASSES):
            snapshot = self.snapshot(now)
            found = plan(snapshot, self.policy, self._outlook, self._kept)
            self.passes += 1
            self._tell(snapshot, found)
            for stop in found.preempts:
                self._stop(stop, now)
            for place in found.places:
                self._start(place, now)
            for job in found.bypassed:
                self._bypass(job)
            if not found.preempts:
                break
        if self.policy.preemption is Preemption.ORDER and self._waiting and self._outlook:
            self._look_at(now + LEARN_SECONDS, LEARN_SECONDS)

    def snapshot(self, now: int) -> ClusterSnapshot:
        return ClusterSnapshot(
            now=now,
            nodes=tuple(self._nodes.values()),
            jobs=tuple(self._waiting.values()),
            running=tuple(self._running.values()),
        )

    def _tell(self, snapshot: ClusterSnapshot, found: Plan) -> None:
        if self._watch:
            for job in self._new:
                self._watch.submitted(self.work[job].job, snapshot, found)
        self._new.clear()

    def _look_at(self, when: int, grid: int) -> None:
        when = -(-when // grid) * grid
        if when not in self._looks:
            self._looks.add(when)
            self._at(when, "", 0)

    def _start(self, place: Place, now: int) -> None:
        job = self._waiting.pop(place.job)
        work = self.work[place.job]
        if self._watch and not work.begun:
            self._watch.started(job, now)
        work.overhead = self._restart_cost if work.begun else 0
        work.begun, work.started_at, work.bypassed = True, now, 0
        work.run += 1
        replicas = tuple(self._occupy(replica, place.job) for replica in place.replicas)
        # Overhead is no useful time: it moves the end by as much.
        job = replace(job, attained_seconds=max(0, work.done - work.overhead), bypassed=0)
        self._running[job.id] = RunningJob(job, replicas, now)
        self._at(now + work.overhead + work.left, job.id, work.run)
        if self._outlook:
            self._outlook.attained(job.id, work.done, now + work.overhead)
        if self.policy.preemption is Preemption.ORDER and self.policy.protection_seconds:
            protected = self.policy.protection_seconds << min(job.preempted, 20)
            self._look_at(now + protected, LOOK_SECONDS)

    def _stop(self, stop: Preempt, now: int) -> None:
        running = self._running.pop(stop.job)
        self._vacate(running)
        work = self.work[stop.job]
        useful = max(0, now - work.started_at - work.overhead)
        work.left, work.done = work.left - useful, work.done + useful
        work.run += 1
        work.stopped += 1
        # Who is moved goes on at once: its next protected time is no longer than this one.
        work.moved += stop.cause is PreemptCause.MOVE
        self._waiting[stop.job] = replace(
            work.job, attained_seconds=work.done, queued_at=now, preempted=work.stopped - work.moved
        )
        if self._outlook:
            self._outlook.attained(stop.job, work.done)

    def _bypass(self, job: str) -> None:
        """The planner only asks whether the limit is reached."""
        work = self.work[job]
        work.bypassed += 1
        if work.bypassed == self.policy.bypass_limit and job in self._waiting:
            self._waiting[job] = replace(self._waiting[job], bypassed=work.bypassed)

    def _occupy(self, replica: ReplicaPlace, job: str) -> ReplicaPlace:
        devices = tuple(
            replace(device, slice=f"{job}/{device.gpu}") if not device.slice else device
            for device in replica.devices
        )
        held = {
            d.gpu: SliceView(d.slice, SliceKind.GPU, "", 0, d.size, held=True, ready=True)
            for d in devices
        }
        self._set(replica.node, {gpu: (view,) for gpu, view in held.items()})
        return replace(replica, devices=devices)

    def _vacate(self, running: RunningJob) -> None:
        for replica in running.replicas:
            self._set(replica.node, {device.gpu: () for device in replica.devices})

    def _set(self, name: str, slices: dict[str, tuple[SliceView, ...]]) -> None:
        node = self._nodes[name]
        gpus = tuple(
            replace(gpu, slices=slices[gpu.id]) if gpu.id in slices else gpu for gpu in node.gpus
        )
        self._nodes[name] = replace(node, gpus=gpus)


def _names(nodes: int) -> list[str]:
    return [f"n{number:05d}" for number in range(nodes)]


def _node(name: str, gpus: int, board: Board) -> NodeView:
    own = tuple(
        GpuView(
            id=f"{name}/{index}",
            index=index,
            board=board.key,
            product_name=board.product_names[0],
            memory_mib=board.memory_mib,
            mode=GpuMode.WHOLE,
            healthy=True,
        )
        for index in range(gpus)
    )
    ample = 1_000 * gpus
    return NodeView(name, name, True, "f", ample, ample, ample, ample, own)


def _gpus(job: WaitingJob) -> float:
    return float(job.device.gpus * job.replicas)
