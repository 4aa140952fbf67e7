"""What the next pass would do with partitions, and with one more job: for admins, before they
approve it or switch something on. The production planner on the rows of now; changes nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from agents.contract.documents import GpuMode, SliceKind
from agents.contract.phrase import Phrase
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

IN_ITS_WAY = Phrase("Idle slices in its way are deleted")
MODE_OF = {
    SliceKind.GPU: GpuMode.WHOLE,
    SliceKind.MIG: GpuMode.MIG,
    SliceKind.MPS: GpuMode.MPS,
}


class PartitionAction(StrEnum):
    """What is done with a GPU. `place`: the job asked about gets a slice or the GPU there."""

    PLACE = "place"
    CARVE = "carve"
    MERGE = "merge"
    MODE = "mode"


class PreviewOutcome(StrEnum):
    """`start`: at once. `partition`: once idle slices or stopped work in its way are gone."""

    START = "start"
    PARTITION = "partition"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A part of a GPU in memory slices; profile "" is the whole GPU, or an MPS share of it."""

    profile: str
    start: int
    size: int
    allocated: bool
    threads: int = 0


@dataclass(frozen=True, slots=True)
class PartitionStep:
    """A step and why it is taken."""

    action: PartitionAction
    sentence: str


@dataclass(frozen=True, slots=True)
class GpuChange:
    """One GPU before and after `steps`, and its mode then."""

    node: str
    index: int
    uuid: str
    mode: GpuMode
    before: tuple[GpuPart, ...]
    after: tuple[GpuPart, ...]
    steps: tuple[PartitionStep, ...]


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What would become of the job; `reason`: why it would not start at once."""

    job: str
    outcome: PreviewOutcome
    reason: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class PartitionPreview:
    """`warm`: whether the policy prepares slices; where it does not, these are what it would."""

    is_prewarm_on: bool
    job: JobOutcome | None
    changes: tuple[GpuChange, ...]


def partition_preview(*, job: Job | None = None, node: str = "") -> PartitionPreview:
    """What one pass would do now, of one node by name or of all; with `job` as if it were approved
    and released, if it is not. Raises Refused(not_waiting)."""
    with current_snapshot().locked() as world:
        snapshot, policy = world.snapshot, world.policy
        asked = _as_queued(job, snapshot.now) if job else None
        if asked:
            others = tuple(other for other in snapshot.jobs if other.id != asked.id)
            snapshot = replace(snapshot, jobs=others)
        plan, proposals = plan_with_proposals(snapshot, policy, asked, world.outlook)
    fate = _fate(job.label, asked.id, plan) if job and asked else None
    steps = _Steps(asked.id if asked else "", plan, proposals)
    return PartitionPreview(policy.warm, fate, tuple(_changes(snapshot, steps, node)))


def _as_queued(job: Job, now: int) -> WaitingJob:
    status = JobStatus(job.status)
    if status not in (JobStatus.QUEUED, JobStatus.AWAITING_APPROVAL):
        raise job_not_waiting(job, "job")
    asked = replace(waiting_job_from_row(job), hold_reason="")
    return asked if status is JobStatus.QUEUED else replace(asked, queued_at=now)


def _fate(label: str, key: str, plan: Plan) -> JobOutcome:
    reason = next((hold.reason for hold in plan.deferrals if hold.job == key), None)
    if reason is None:
        return JobOutcome(label, PreviewOutcome.START, None)
    made_for = {m.for_job for m in plan.merges} | {p.for_job for p in plan.preemptions}
    fate = PreviewOutcome.PARTITION if key in made_for else PreviewOutcome.WAIT
    return JobOutcome(label, fate, reason.as_dict())


class _Steps:
    """What a plan and its proposals do, by GPU. Other jobs' placements are theirs, not listed."""

    def __init__(self, key: str, plan: Plan, proposals: Proposals) -> None:
        self.given: dict[str, list[DevicePlacement]] = {}
        self.why = ""
        for place in plan.placements:
            if place.job == key:
                for device in (d for replica in place.replicas for d in replica.devices):
                    self.given.setdefault(device.gpu, []).append(device)
                self.why = Phrase("%(words)s", words=place.message)
        own = tuple(merge for merge in plan.merges if key and merge.for_job == key)
        self.merges = {merge.gpu: merge for merge in (*own, *proposals.merges)}
        self.modes = {change.gpu: change for change in proposals.modes}
        self.carves = proposals.carves

    def of(self, gpu: GpuView) -> tuple[list[GpuPart], list[PartitionStep], GpuMode]:
        """The GPU afterwards, what is done with it, and its mode."""
        steps: list[PartitionStep] = []
        goes: set[str] = set()
        mode = gpu.mode
        if merge := self.merges.get(gpu.id):
            goes |= set(merge.slices)
            steps.append(PartitionStep(PartitionAction.MERGE, merge.sentence or IN_ITS_WAY))
        given = self.given.get(gpu.id, [])
        taken = {device.slice for device in given if device.slice}
        after = [
            replace(_part(s), held=s.allocated or s.id in taken)
            for s in gpu.slices
            if s.id not in goes
        ]
        for device in given:
            mode = MODE_OF[device.kind]
            steps.append(PartitionStep(PartitionAction.PLACE, self.why))
            if not device.slice:
                where = (device.profile, device.start, device.size)
                after.append(GpuPart(*where, allocated=True, threads=device.threads))
        for carve in (c for c in self.carves if c.gpu == gpu.id):
            steps.append(PartitionStep(PartitionAction.CARVE, carve.sentence))
            after.append(GpuPart(carve.profile, carve.start, carve.size, allocated=False))
        if change := self.modes.get(gpu.id):
            mode = change.mode
            steps.append(PartitionStep(PartitionAction.MODE, change.sentence))
        return after, steps, mode


def _changes(snapshot: ClusterSnapshot, steps: _Steps, only: str) -> Iterable[GpuChange]:
    uuids = {str(pk): uuid for pk, uuid in Gpu.objects.values_list("pk", "uuid")}
    for node, gpu in _gpus(snapshot):
        after, done, mode = steps.of(gpu)
        if done and only in ("", node.name):
            before = tuple(sorted((_part(s) for s in gpu.slices), key=_by_start))
            place = tuple(sorted(after, key=_by_start))
            yield GpuChange(node.name, gpu.index, uuids[gpu.id], mode, before, place, tuple(done))


def _gpus(snapshot: ClusterSnapshot) -> list[tuple[NodeView, GpuView]]:
    found = [(node, gpu) for node in snapshot.nodes for gpu in node.gpus]
    return sorted(found, key=lambda at: (at[0].name, at[1].index))


def _part(one: SliceView) -> GpuPart:
    return GpuPart(one.profile, one.start, one.size, one.allocated, one.threads)


def _by_start(part: GpuPart) -> tuple[int, str]:
    return part.start, part.profile
