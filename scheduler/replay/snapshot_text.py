"""A planning pass in words: the cluster as it was, what is done now, and why the others wait."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from scheduler.core.model.decisions import Deferral, Plan, ReplicaPlacement
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot, GpuView, RunningJob


class PassReport:
    """One pass. Every line stands for itself; what belongs to it is indented below it."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, plan: Plan) -> None:
        self._snapshot, self._policy, self._decided = snapshot, policy, plan
        running = {run.job.id: run.job for run in snapshot.running}
        self._jobs = {job.id: job for job in snapshot.jobs} | running
        self._nodes = {node.id: node for node in snapshot.nodes}
        self._gpus = {g.id: (node.name, g) for node in snapshot.nodes for g in node.gpus}

    def lines(self, wanted: str = "") -> Iterator[str]:
        """Of all jobs, or of what concerns one."""
        found = [line for part in self._parts(wanted) for line in part]
        yield from self._head()
        yield from found or ["Nothing is decided: nobody waits for this planner."]

    def _head(self) -> Iterator[str]:
        seen, policy = self._snapshot, self._policy
        there = [node for node in seen.nodes if node.available]
        gpus = sum(len(node.gpus) for node in there)
        yield (
            f"As of {_moment(seen.now)}: {len(there)} of {len(seen.nodes)} nodes with {gpus} GPUs, "
            f"{len(seen.jobs)} jobs wait, {len(seen.running)} hold devices"
        )
        yield (
            f"Policy: order {policy.order}, backfill {policy.backfill}, "
            f"preemption {policy.preemption}"
        )

    def _parts(self, wanted: str) -> Iterator[Iterator[str]]:
        yield self._held(wanted)
        yield self._starts(wanted)
        yield self._room(wanted)
        yield self._waits(wanted)

    def _held(self, wanted: str) -> Iterator[str]:
        """Only who is asked about: that others run is no decision."""
        for run in self._snapshot.running:
            if run.job.id == wanted:
                yield self._runs(run)
                yield from self._devices(run.replicas)

    def _runs(self, run: RunningJob) -> str:
        state = "gives its devices back" if run.stopping else "holds devices"
        now, who = self._snapshot.now, self._called(run.job.id)
        since, left = duration(now - run.started_at), duration(run.ends_at - now)
        return f"{who} {state}, for {since} so far; its limit is over in {left}"

    def _starts(self, wanted: str) -> Iterator[str]:
        for place in self._decided.placements:
            if wanted in ("", place.job):
                yield f"{self._called(place.job)} starts: {place.sentence}"
                yield from self._devices(place.replicas)

    def _room(self, wanted: str) -> Iterator[str]:
        decided = self._decided
        for merge in decided.merges:
            if wanted in ("", merge.for_job):
                why = f"for {self._called(merge.for_job)}" if merge.for_job else "as it is wanted"
                what = f"{len(merge.slices)} idle slices on {self._where(merge.gpu)} are deleted"
                yield _with(f"{what} {why}", merge.sentence)
        for carve in decided.carves:
            if not wanted:
                what = f"{carve.profile} at {carve.start} on {self._where(carve.gpu)}"
                yield _with(f"An idle {what} is made for whoever asks next", carve.sentence)
        for stop in decided.preemptions:
            if wanted in ("", stop.job, stop.for_job):
                who = f"{self._called(stop.job)} stops for {self._called(stop.for_job)}"
                yield _with(f"{who} [{stop.cause}]", stop.sentence)
        for kept in decided.reservations:
            if wanted in ("", kept.job):
                late = duration(kept.starts_at - self._snapshot.now)
                yield f"{self._called(kept.job)} is sure to start in {late} at the latest"
                if wanted:
                    yield from self._devices(kept.replicas)

    def _waits(self, wanted: str) -> Iterator[str]:
        for hold in self._decided.deferrals:
            if wanted in ("", hold.job):
                yield from self._why(hold, evidence=bool(wanted))

    def _why(self, hold: Deferral, *, evidence: bool) -> Iterator[str]:
        reason, job = hold.reason, self._jobs[hold.job]
        waited = duration(self._snapshot.now - job.queued_at)
        why = f"waits for {waited} [{reason.code}]"
        yield _with(f"{hold.position}. {self._called(hold.job)} {why}", reason.sentence)
        if reason.unblocks:
            yield f"   {reason.unblocks}"
        if evidence:
            for name, value in sorted(reason.evidence.items()):
                is_time = name.endswith("_at") and isinstance(value, int)
                told = _moment(value) if is_time else json.dumps(value, sort_keys=True)
                yield f"   {name}: {told}"

    def _called(self, job: str) -> str:
        known = self._jobs.get(job)
        return f"J-{job} {known.name} ({known.project}/{known.user})" if known else f"J-{job}"

    def _where(self, gpu: str) -> str:
        node, view = self._gpus[gpu]
        return f"{node}, GPU {view.index}"

    def _devices(self, replicas: tuple[ReplicaPlacement, ...]) -> Iterator[str]:
        for replica in replicas:
            for device in replica.devices:
                what = f"{device.profile} at {device.start}" if device.profile else "whole"
                what = f"{device.threads} % shared" if device.threads else what
                _, view = self._gpus[device.gpu]
                how = "ready" if _is_there(view, device.slice) else "new"
                where = self._where(device.gpu)
                yield f"   replica {replica.rank}: {where} ({view.board}), {what} ({how})"


def _is_there(gpu: GpuView, slice: str) -> bool:
    return any(seen.id == slice for seen in gpu.slices)


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _with(line: str, sentence: str) -> str:
    """The line, and what the planner says to it."""
    return f"{line}: {sentence.rstrip('. ')}" if sentence else line


def duration(seconds: int) -> str:
    """As in 2d 3h, 3h 05m, 12m 30s and 40s."""
    sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{sign}{days}d {hour}h"
    if hours:
        return f"{sign}{hours}h {minute:02}m"
    return f"{sign}{minute}m {second:02}s" if minutes else f"{sign}{second}s"
