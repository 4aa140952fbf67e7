"""What the next pass would do with partitions, and with one more job. Changes nothing.

For admins, before they approve a job or change the policy: the planner itself plans, on a cached
snapshot.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from agents.contract.documents import GpuMode, SliceKind
from agents.contract.message import NO_MESSAGE, Message
from portal.inventory.models import Gpu
from portal.jobs.models import Job
from portal.jobs.selectors import job_not_waiting
from portal.planning.requests import waiting_job_from_row
from portal.planning.snapshot_cache import current_snapshot
from scheduler.core.carving.proposals import Proposals
from scheduler.core.carving_preview import plan_with_proposals
from scheduler.core.model.decisions import DevicePlacement, Plan
from scheduler.core.model.snapshot import ClusterSnapshot, GpuView, NodeView, SliceView, WaitingJob
from scheduler.core.model.states import JobStatus

IN_ITS_WAY = Message("Idle slices in its way are deleted")
MODE_OF = {
    SliceKind.GPU: GpuMode.WHOLE,
    SliceKind.MIG: GpuMode.MIG,
    SliceKind.MPS: GpuMode.MPS,
}


class PartitionAction(StrEnum):
    """What is done with a GPU."""

    # The job gets a slice, or the whole GPU.
    PLACE = "place"
    CARVE = "carve"
    MERGE = "merge"
    MODE = "mode"


class PreviewOutcome(StrEnum):
    # At once.
    START = "start"
    # Once idle slices, or preempted work, in its way are gone.
    PARTITION = "partition"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A part of a GPU, in memory slices. Profile "" is the whole GPU, or an MPS share of it."""

    profile: str
    start: int
    size: int
    allocated: bool
    threads: int = 0


@dataclass(frozen=True, slots=True)
class PartitionStep:
    """An action and its reason."""

    action: PartitionAction
    message: Message


@dataclass(frozen=True, slots=True)
class GpuChange:
    """One GPU before and after `steps`, and its mode afterwards."""

    node: str
    index: int
    uuid: str
    mode: GpuMode
    before: tuple[GpuPart, ...]
    after: tuple[GpuPart, ...]
    steps: tuple[PartitionStep, ...]


@dataclass(frozen=True, slots=True)
class PreviewedJob:
    """What would become of the job."""

    job: str
    outcome: PreviewOutcome
    reason: dict[str, Any] | None
    """Why it would not start at once."""


@dataclass(frozen=True, slots=True)
class PartitionPreview:
    """Changes of GPUs; if prewarming is off, those that it would make."""

    is_prewarm_on: bool
    job: PreviewedJob | None
    changes: tuple[GpuChange, ...]


def partition_preview(*, job: Job | None = None, node: str = "") -> PartitionPreview:
    """What one pass would do now, on one node by name or on all. `job`: planned as if it were
    approved and released. Raises Refused(not_waiting)."""
    with current_snapshot().locked() as cached:
        snapshot, policy = cached.snapshot, cached.policy
        waiting = _as_queued(job, snapshot.now) if job else None
        if waiting:
            others = tuple(other for other in snapshot.jobs if other.id != waiting.id)
            snapshot = replace(snapshot, jobs=others)
        plan, proposals = plan_with_proposals(snapshot, policy, waiting, cached.runtime_model)
    previewed = _previewed(job.label, waiting.id, plan) if job and waiting else None
    steps = _Steps(waiting.id if waiting else "", plan, proposals)
    return PartitionPreview(policy.warm, previewed, tuple(_changes(snapshot, steps, node)))


def _as_queued(job: Job, now: int) -> WaitingJob:
    status = JobStatus(job.status)
    if status not in (JobStatus.QUEUED, JobStatus.AWAITING_APPROVAL):
        raise job_not_waiting(job, "job")
    waiting = replace(waiting_job_from_row(job), hold_reason="")
    return waiting if status is JobStatus.QUEUED else replace(waiting, queued_at=now)


def _previewed(label: str, id: str, plan: Plan) -> PreviewedJob:
    reason = next((d.reason for d in plan.deferrals if d.job == id), None)
    if reason is None:
        return PreviewedJob(label, PreviewOutcome.START, None)
    makes_room = {m.for_job for m in plan.merges} | {p.for_job for p in plan.preemptions}
    outcome = PreviewOutcome.PARTITION if id in makes_room else PreviewOutcome.WAIT
    return PreviewedJob(label, outcome, reason.as_dict())


class _Steps:
    """What a plan and its proposals do, by GPU. Placements of other jobs are left out."""

    def __init__(self, job: str, plan: Plan, proposals: Proposals) -> None:
        self.devices: dict[str, list[DevicePlacement]] = {}
        self.placed_message = NO_MESSAGE
        for placement in plan.placements:
            if placement.job == job:
                for device in (d for replica in placement.replicas for d in replica.devices):
                    self.devices.setdefault(device.gpu, []).append(device)
                self.placed_message = placement.message
        own = tuple(merge for merge in plan.merges if job and merge.for_job == job)
        self.merges = {merge.gpu: merge for merge in (*own, *proposals.merges)}
        self.modes = {change.gpu: change for change in proposals.modes}
        self.carves = proposals.carves

    def of(self, gpu: GpuView) -> tuple[list[GpuPart], list[PartitionStep], GpuMode]:
        """The GPU's parts afterwards, the steps, and its mode afterwards."""
        steps: list[PartitionStep] = []
        deleted: set[str] = set()
        mode = gpu.mode
        if merge := self.merges.get(gpu.id):
            deleted |= set(merge.slices)
            steps.append(PartitionStep(PartitionAction.MERGE, merge.message or IN_ITS_WAY))
        devices = self.devices.get(gpu.id, [])
        taken = {device.slice for device in devices if device.slice}
        after = [
            replace(_part(s), allocated=s.allocated or s.id in taken)
            for s in gpu.slices
            if s.id not in deleted
        ]
        for device in devices:
            mode = MODE_OF[device.kind]
            steps.append(PartitionStep(PartitionAction.PLACE, self.placed_message))
            if not device.slice:
                size = (device.profile, device.start, device.size)
                after.append(GpuPart(*size, allocated=True, threads=device.threads))
        for carve in (c for c in self.carves if c.gpu == gpu.id):
            steps.append(PartitionStep(PartitionAction.CARVE, carve.message))
            after.append(GpuPart(carve.profile, carve.start, carve.size, allocated=False))
        if change := self.modes.get(gpu.id):
            mode = change.mode
            steps.append(PartitionStep(PartitionAction.MODE, change.message))
        return after, steps, mode


def _changes(snapshot: ClusterSnapshot, steps: _Steps, only: str) -> Iterable[GpuChange]:
    uuids = {str(pk): uuid for pk, uuid in Gpu.objects.values_list("pk", "uuid")}
    for node, gpu in _gpus(snapshot):
        parts, taken, mode = steps.of(gpu)
        if taken and only in ("", node.name):
            before = tuple(sorted((_part(s) for s in gpu.slices), key=_by_start))
            after = tuple(sorted(parts, key=_by_start))
            yield GpuChange(node.name, gpu.index, uuids[gpu.id], mode, before, after, tuple(taken))


def _gpus(snapshot: ClusterSnapshot) -> list[tuple[NodeView, GpuView]]:
    gpus = [(node, gpu) for node in snapshot.nodes for gpu in node.gpus]
    return sorted(gpus, key=lambda pair: (pair[0].name, pair[1].index))


def _part(s: SliceView) -> GpuPart:
    return GpuPart(s.profile, s.start, s.size, s.allocated, s.threads)


def _by_start(part: GpuPart) -> tuple[int, str]:
    return part.start, part.profile
