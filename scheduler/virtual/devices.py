"""The devices of a virtual cluster, which jobs take and give back.

A whole GPU and an MPS share go when their job ends; a MIG slice stays, idle, until it is merged.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

from agents.contract.documents import GpuMode, SliceKind
from scheduler.core.model.decisions import Carve, DevicePlacement, Merge, ReplicaPlacement
from scheduler.core.model.snapshot import GpuView, NodeView, RunningJob, SliceView, WaitingJob
from scheduler.core.placement.ledger import new_slice

GpuUpdate = Callable[[GpuView], GpuView]

MODES = {SliceKind.GPU: GpuMode.WHOLE, SliceKind.MIG: GpuMode.MIG, SliceKind.MPS: GpuMode.MPS}


def emptied_nodes(nodes: Iterable[NodeView]) -> tuple[NodeView, ...]:
    """The nodes without any job. A pinned GPU keeps its slices, idle and ready."""
    return tuple(
        replace(
            node,
            cpu_free_milli=node.cpu_total_milli,
            memory_free_mib=node.memory_total_mib,
            disk_free_mib=node.disk_total_mib or 0,
            gpus=tuple(replace(g, slices=_kept(g), settles_at=0) for g in node.gpus),
        )
        for node in nodes
    )


def _kept(gpu: GpuView) -> tuple[SliceView, ...]:
    kept = (s for s in gpu.slices if gpu.pinned and s.kind is SliceKind.MIG)
    return tuple(replace(s, allocated=False, ready=True, project="") for s in kept)


class VirtualDevices:
    """Nodes by id. Every slice that is made gets an id of its own."""

    def __init__(self, nodes: Iterable[NodeView]) -> None:
        self._nodes = {node.id: node for node in nodes}
        self._home = {gpu.id: node.id for node in self._nodes.values() for gpu in node.gpus}
        self._made = count(1)

    @property
    def nodes(self) -> tuple[NodeView, ...]:
        return tuple(self._nodes.values())

    def take(
        self, job: WaitingJob, replicas: Iterable[ReplicaPlacement]
    ) -> tuple[ReplicaPlacement, ...]:
        """Allocate a gang's devices. Returns the placements with the ids of their slices."""
        return tuple(self._take(job, replica) for replica in replicas)

    def give_back(self, run: RunningJob) -> None:
        """Free the devices of a job."""
        for replica in run.replicas:
            self._host(replica.node, run.job, 1)
            self._on(replica.node, [(d.gpu, _free(d.slice)) for d in replica.devices])

    def delete(self, merge: Merge) -> None:
        """Begin to delete idle slices: no job can take them any more."""
        going = set(merge.slices)
        dimmed = _slices(lambda s: replace(s, ready=False) if s.id in going else s)
        self._gpu(merge.gpu, dimmed)

    def deleted(self, merge: Merge, settles_at: int) -> None:
        """They are gone; their GPU settles until `settles_at`."""
        going = set(merge.slices)
        self._gpu(merge.gpu, _slices(lambda s: None if s.id in going else s))
        self._gpu(merge.gpu, lambda gpu: replace(gpu, settles_at=settles_at))

    def carve(self, carve: Carve) -> str:
        """Begin to make an idle slice. Returns its id."""
        key = self._key()
        made = SliceView(
            key, SliceKind.MIG, carve.profile, carve.start, carve.size, allocated=False, ready=False
        )
        self._gpu(carve.gpu, _put(made))
        return key

    def carved(self, gpu: str, key: str) -> None:
        """The slice can be used."""
        self._gpu(gpu, _slices(lambda s: replace(s, ready=True) if s.id == key else s))

    def _take(self, job: WaitingJob, replica: ReplicaPlacement) -> ReplicaPlacement:
        self._host(replica.node, job, -1)
        devices = tuple(
            place if place.slice else replace(place, slice=self._key()) for place in replica.devices
        )
        pairs = zip(replica.devices, devices, strict=True)
        self._on(
            replica.node,
            [(d.gpu, _hold(job, d) if old.slice else _put(_made(job, d))) for old, d in pairs],
        )
        return replace(replica, devices=devices)

    def _key(self) -> str:
        return f"s{next(self._made)}"

    def _host(self, node: str, job: WaitingJob, sign: int) -> None:
        view = self._nodes[node]
        self._nodes[node] = replace(
            view,
            cpu_free_milli=view.cpu_free_milli + sign * job.cpu_milli,
            memory_free_mib=view.memory_free_mib + sign * job.memory_mib,
            disk_free_mib=view.disk_free_mib + sign * job.disk_mib,
        )

    def _gpu(self, gpu: str, change: GpuUpdate) -> None:
        self._on(self._home[gpu], [(gpu, change)])

    def _on(self, node: str, changes: Iterable[tuple[str, GpuUpdate]]) -> None:
        """Change GPUs of one node, one change after another."""
        gpus = {view.id: view for view in self._nodes[node].gpus}
        for gpu, change in changes:
            gpus[gpu] = change(gpus[gpu])
        self._nodes[node] = replace(self._nodes[node], gpus=tuple(gpus.values()))


def _put(made: SliceView) -> GpuUpdate:
    mode = MODES[made.kind]
    return lambda view: replace(view, mode=mode, slices=(*view.slices, made))


def _slices(change: Callable[[SliceView], SliceView | None]) -> GpuUpdate:
    def changed(view: GpuView) -> GpuView:
        kept = (change(slice_view) for slice_view in view.slices)
        return replace(
            view, slices=tuple(slice_view for slice_view in kept if slice_view is not None)
        )

    return changed


def _hold(job: WaitingJob, place: DevicePlacement) -> GpuUpdate:
    def held(slice_view: SliceView) -> SliceView:
        return (
            replace(slice_view, allocated=True, project=job.project)
            if slice_view.id == place.slice
            else slice_view
        )

    return _slices(held)


def _free(key: str) -> GpuUpdate:
    return _slices(lambda slice_view: _freed(slice_view) if slice_view.id == key else slice_view)


def _freed(slice_view: SliceView) -> SliceView | None:
    if slice_view.kind is not SliceKind.MIG:
        return None
    return replace(slice_view, allocated=False, project="")


def _made(job: WaitingJob, place: DevicePlacement) -> SliceView:
    """The slice that is made for a job."""
    return replace(new_slice(place.slice, place, job, ready=True), project=job.project)
