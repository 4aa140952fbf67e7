"""The availability of the cluster, by node and by board."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from scheduler.core.availability.counts import Availability, availability_sum
from scheduler.core.availability.gpu import GpuClass, gpu_availability, gpu_class
from scheduler.core.model.decisions import DevicePlacement, Merge, ReplicaPlacement
from scheduler.core.model.snapshot import ClusterSnapshot, SliceView, WaitingJob
from scheduler.core.placement.ledger import GpuSpace, Ledger, NodeSpace
from scheduler.core.quota.promises import QuotaPromise, quota_promises


@dataclass(slots=True)
class NodeAvailability:
    """The GPUs of one node."""

    boards: dict[str, Availability] = field(default_factory=dict)
    """By key of the board."""

    @property
    def total(self) -> Availability:
        """To read only: of a node with one board, that board's own counts."""
        if len(self.boards) == 1:
            return next(iter(self.boards.values()))
        return availability_sum(self.boards.values())


@dataclass(slots=True)
class ClusterAvailability:
    at: int
    """When the snapshot was taken, in seconds since the epoch."""
    nodes: dict[str, NodeAvailability]
    """By name."""
    boards: dict[str, Availability]
    """By key of the board."""
    share_room: Counter[tuple[str, str, str]]
    """GPUs with room for one more MPS share, by project that shares them, board and node."""
    board_table: dict[str, Board]
    """The boards by key."""
    total: Availability = field(default_factory=Availability)
    promises: tuple[QuotaPromise, ...] = ()
    """Quota that the pass keeps for waiting jobs; what is `reserved` of the devices."""
    may_lag: bool = False
    """Whether something may have happened since `at`: pages then say when it was."""


def cluster_availability(
    snapshot: ClusterSnapshot,
    places: Mapping[str, Iterable[ReplicaPlacement]] | None = None,
    merges: Iterable[Merge] = (),
    *,
    can_merge: bool = True,
) -> ClusterAvailability:
    """`places`: what a pass over the snapshot gave to waiting jobs or keeps for them, by job;
    `merges`: the idle slices that it deletes for them; `can_merge`: whether the policy lets it."""
    ledger = Ledger(snapshot, with_accounts=False)
    _reserve(ledger, places or {}, merges)
    found = _Counting(ledger, can_merge=can_merge).result()
    found.promises = quota_promises(snapshot, places or {})
    return found


class _Counting:
    """One count. GPUs of one class are examined once."""

    def __init__(self, ledger: Ledger, *, can_merge: bool) -> None:
        self._ledger, self._can_merge = ledger, can_merge
        self._of_class: dict[GpuClass, Availability] = {}

    def result(self) -> ClusterAvailability:
        found = ClusterAvailability(self._ledger.snapshot.now, {}, {}, Counter(), {})
        for node in self._ledger.nodes.values():
            own = found.nodes[node.view.name] = NodeAvailability()
            for gpu in node.gpus:
                key = gpu.board.key
                found.board_table.setdefault(key, gpu.board)
                own.boards.setdefault(key, Availability()).add(self._gpu(node, gpu))
                if project := _project_with_room(node, gpu):
                    found.share_room[project, key, node.view.name] += 1
            for key, of_board in own.boards.items():
                found.boards.setdefault(key, Availability()).add(of_board)
        found.total = availability_sum(found.boards.values())
        return found

    def _gpu(self, node: NodeSpace, gpu: GpuSpace) -> Availability:
        key = gpu_class(node, gpu, self._ledger.snapshot.now, can_merge=self._can_merge)
        if key not in self._of_class:
            self._of_class[key] = gpu_availability(gpu, key)
        return self._of_class[key]


def _project_with_room(node: NodeSpace, gpu: GpuSpace) -> str:
    """The project that shares the GPU, if one more of its shares fits; else ""."""
    if not (gpu.view.healthy and node.view.available and gpu.is_shared):
        return ""
    if node.cpu_free_milli <= 0 or node.memory_free_mib <= 0:
        return ""
    project = next(iter(gpu.slices.values())).project
    room = gpu.share_room(project, node.view.share_clients) if project else None
    return project if room and room.max_shares(1, 1, 1) else ""


def _reserve(
    ledger: Ledger,
    places: Mapping[str, Iterable[ReplicaPlacement]],
    merges: Iterable[Merge],
) -> None:
    """Take what the pass keeps off the ledger, except what other jobs still hold."""
    jobs = {job.id: job for job in ledger.snapshot.jobs}
    for merge in merges:
        if merge.for_job:
            gpu = ledger.gpus[merge.gpu]
            ledger.delete_idle(gpu, [key for key in merge.slices if key in gpu.slices])
    for key, replicas in sorted(places.items()):
        job = jobs[key]
        for replica in replicas:
            # A replica that waits for others to stop gets its CPU and memory from them.
            reserved = [_reserve_device(ledger, job, device) for device in replica.devices]
            if all(reserved):
                node = ledger.nodes[replica.node]
                ledger.reserve_host(node, job.cpu_milli, job.memory_mib, job.disk_mib)


def _reserve_device(ledger: Ledger, job: WaitingJob, device: DevicePlacement) -> bool:
    """Whether no other job holds it still."""
    gpu = ledger.gpus[device.gpu]
    if device.slice:
        in_way = [device.slice]
    else:
        in_way = [key for key, view in gpu.slices.items() if _overlaps(view, device, job)]
    if not all(key in gpu.slices and gpu.is_idle(key) for key in in_way):
        return False
    if in_way and not device.slice:
        ledger.delete_idle(gpu, in_way)
    ledger.reserve_device(device, job)
    return True


def _overlaps(view: SliceView, device: DevicePlacement, job: WaitingJob) -> bool:
    if view.kind is SliceKind.MPS and device.kind is SliceKind.MPS and view.project == job.project:
        return False
    if view.kind is SliceKind.MIG and device.kind is SliceKind.MIG:
        return view.start < device.start + device.size and device.start < view.start + view.size
    return True
