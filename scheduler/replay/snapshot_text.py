"""A planning pass as text: the cluster as it was, the decisions, and why the other jobs wait."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from scheduler.core.model.decisions import Deferral, Plan, PreemptionCause, ReplicaPlacement
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot, GpuView, RunningJob

CAUSES = {
    PreemptionCause.PRIORITY: "that job has a higher priority",
    PreemptionCause.RECLAIM: "its project takes back quota that it lent",
    PreemptionCause.ORDER: "that job comes first in the order",
    PreemptionCause.MOVE: "that job needs the place, and this one fits elsewhere",
}


class PassReport:
    """Lines about one pass; details of a line are indented below it."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, plan: Plan) -> None:
        self._snapshot, self._policy, self._plan = snapshot, policy, plan
        running = {run.job.id: run.job for run in snapshot.running}
        self._jobs = {job.id: job for job in snapshot.jobs} | running
        self._nodes = {node.id: node for node in snapshot.nodes}
        self._gpus = {g.id: (node.name, g) for node in snapshot.nodes for g in node.gpus}

    def lines(self, job_id: str = "") -> Iterator[str]:
        """About all jobs, or about one."""
        found = [line for part in self._parts(job_id) for line in part]
        yield from self._head()
        yield from found or ["Nothing to decide: no job waits."]

    def _head(self) -> Iterator[str]:
        seen, policy = self._snapshot, self._policy
        there = [node for node in seen.nodes if node.available]
        gpus = sum(len(node.gpus) for node in there)
        yield (
            f"As of {_moment(seen.now)}: {len(there)} of {len(seen.nodes)} nodes with {gpus} GPUs, "
            f"{len(seen.jobs)} jobs wait, {len(seen.running)} run"
        )
        yield (
            f"Policy: order {policy.order}, backfill {policy.backfill}, "
            f"preemption {policy.preemption}"
        )

    def _parts(self, job_id: str) -> Iterator[Iterator[str]]:
        yield self._running(job_id)
        yield self._starts(job_id)
        yield self._room(job_id)
        yield self._waits(job_id)

    def _running(self, job_id: str) -> Iterator[str]:
        """Only about the requested job: that others run is no decision."""
        for run in self._snapshot.running:
            if run.job.id == job_id:
                yield self._runs(run)
                yield from self._devices(run.replicas)

    def _runs(self, run: RunningJob) -> str:
        state = "gives its devices back" if run.stopping else "holds devices"
        now, who = self._snapshot.now, self._name(run.job.id)
        since, left = duration(now - run.started_at), duration(run.ends_at - now)
        return f"{who} {state}, for {since} so far; its limit is over in {left}"

    def _starts(self, job_id: str) -> Iterator[str]:
        for place in self._plan.placements:
            if job_id in ("", place.job):
                yield f"{self._name(place.job)} starts: {place.sentence}"
                yield from self._devices(place.replicas)

    def _room(self, job_id: str) -> Iterator[str]:
        plan = self._plan
        for merge in plan.merges:
            if job_id in ("", merge.for_job):
                why = f"for {self._name(merge.for_job)}" if merge.for_job else "to make room ahead"
                what = f"{len(merge.slices)} idle slices on {self._where(merge.gpu)} are deleted"
                yield _with(f"{what} {why}", merge.message.text)
        for carve in plan.carves:
            if not job_id:
                what = f"{carve.profile} at {carve.start} on {self._where(carve.gpu)}"
                yield _with(f"An idle {what} is made ahead of demand", carve.message.text)
        for stop in plan.preemptions:
            if job_id in ("", stop.job, stop.for_job):
                who = f"{self._name(stop.job)} stops for {self._name(stop.for_job)}"
                yield _with(f"{who} [{stop.cause}]", CAUSES[stop.cause])
        for reservation in plan.reservations:
            if job_id in ("", reservation.job):
                late = duration(reservation.starts_at - self._snapshot.now)
                yield f"{self._name(reservation.job)} is sure to start in {late} at the latest"
                if job_id:
                    yield from self._devices(reservation.replicas)

    def _waits(self, job_id: str) -> Iterator[str]:
        for deferral in self._plan.deferrals:
            if job_id in ("", deferral.job):
                yield from self._why(deferral, evidence=bool(job_id))

    def _why(self, deferral: Deferral, *, evidence: bool) -> Iterator[str]:
        reason, job = deferral.reason, self._jobs[deferral.job]
        waited = duration(self._snapshot.now - job.queued_at)
        why = f"waits for {waited} [{reason.code}]"
        yield _with(f"{deferral.position}. {self._name(deferral.job)} {why}", reason.sentence)
        if reason.unblocks:
            yield f"   {reason.unblocks}"
        if evidence:
            for name, value in sorted(reason.evidence.items()):
                is_time = name.endswith("_at") and isinstance(value, int)
                text = _moment(value) if is_time else json.dumps(value, sort_keys=True)
                yield f"   {name}: {text}"

    def _name(self, job: str) -> str:
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
                how = "ready" if _exists(view, device.slice) else "new"
                where = self._where(device.gpu)
                yield f"   replica {replica.rank}: {where} ({view.board}), {what} ({how})"


def _exists(gpu: GpuView, slice: str) -> bool:
    return any(seen.id == slice for seen in gpu.slices)


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _with(line: str, sentence: str) -> str:
    """The line, followed by the planner's explanation."""
    return f"{line}: {sentence.rstrip('. ')}" if sentence else line


def duration(seconds: int) -> str:
    """Such as 2d 3h, 3h 05m, 12m 30s or 40s."""
    sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{sign}{days}d {hour}h"
    if hours:
        return f"{sign}{hours}h {minute:02}m"
    return f"{sign}{minute}m {second:02}s" if minutes else f"{sign}{second}s"
