"""The devices of a cluster that jobs take and give back, as rows would have them.

A whole GPU and an MPS share go when their job ends; a MIG slice stays, idle, until it is merged.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

from agents.contract.documents import GpuMode, SliceKind
from scheduler.core.decisions import Carve, Merge, ReplicaPlace, SlicePlace
from scheduler.core.placement.shares import share_of
from scheduler.core.values import GpuView, NodeView, RunningJob, SliceView, WaitingJob

MODES = {SliceKind.GPU: GpuMode.WHOLE, SliceKind.MIG: GpuMode.MIG, SliceKind.MPS: GpuMode.MPS}


def emptied(nodes: Iterable[NodeView]) -> tuple[NodeView, ...]:
    """The nodes without any work. A pinned GPU keeps its partitions, idle and ready."""
    return tuple(
        replace(
            node,
            cpu_free_milli=node.cpu_total_milli,
            memory_free_mib=node.memory_total_mib,
            gpus=tuple(replace(g, slices=_kept(g), settles_at=0) for g in node.gpus),
        )
        for node in nodes
    )


def _kept(gpu: GpuView) -> tuple[SliceView, ...]:
    kept = (s for s in gpu.slices if gpu.pinned and s.kind is SliceKind.MIG)
    return tuple(replace(s, held=False, ready=True, project="") for s in kept)


class Devices:
    """Nodes by id. Everything that is put on a GPU has an id of its own."""

    def __init__(self, nodes: Iterable[NodeView]) -> None:
        self._nodes = {node.id: node for node in nodes}
        self._home = {gpu.id: node.id for node in self._nodes.values() for gpu in node.gpus}
        self._made = count(1)

    @property
    def nodes(self) -> tuple[NodeView, ...]:
        return tuple(self._nodes.values())

    def take(self, job: WaitingJob, replicas: Iterable[ReplicaPlace]) -> tuple[ReplicaPlace, ...]:
        """Hold what a gang was given. Returns the places with their slices named."""
        return tuple(self._take(job, replica) for replica in replicas)

    def give_back(self, run: RunningJob) -> None:
        """Free what a job holds."""
        for replica in run.replicas:
            self._host(replica.node, run.job, 1)
            for device in replica.devices:
                self._free(device.gpu, device.slice)

    def delete(self, merge: Merge) -> None:
        """Begin to delete idle slices: nobody can take them any more."""
        going = set(merge.slices)
        self._slices(merge.gpu, lambda s: replace(s, ready=False) if s.id in going else s)

    def deleted(self, merge: Merge, settles_at: int) -> None:
        """They are gone, and their GPU settles."""
        going = set(merge.slices)
        self._slices(merge.gpu, lambda s: None if s.id in going else s)
        self._gpu(merge.gpu, lambda gpu: replace(gpu, settles_at=settles_at))

    def carve(self, carve: Carve) -> str:
        """Begin to make an idle slice. Returns its id."""
        key = self._key()
        made = SliceView(
            key, SliceKind.MIG, carve.profile, carve.start, carve.size, held=False, ready=False
        )
        self._put(carve.gpu, made)
        return key

    def carved(self, gpu: str, key: str) -> None:
        """It can be used."""
        self._slices(gpu, lambda s: replace(s, ready=True) if s.id == key else s)

    def _take(self, job: WaitingJob, replica: ReplicaPlace) -> ReplicaPlace:
        self._host(replica.node, job, -1)
        devices = tuple(self._hold(job, device) for device in replica.devices)
        return replace(replica, devices=devices)

    def _hold(self, job: WaitingJob, place: SlicePlace) -> SlicePlace:
        if place.slice:
            self._slices(place.gpu, lambda s: _held(s, job) if s.id == place.slice else s)
            return place
        key = self._key()
        made = SliceView(
            *(key, place.kind, place.profile, place.start, place.size),
            held=True,
            ready=True,
            project=job.project,
        )
        self._put(place.gpu, share_of(made, place, job) if place.kind is SliceKind.MPS else made)
        return replace(place, slice=key)

    def _free(self, gpu: str, key: str) -> None:
        self._slices(gpu, lambda s: _freed(s) if s.id == key else s)

    def _key(self) -> str:
        return f"s{next(self._made)}"

    def _host(self, node: str, job: WaitingJob, sign: int) -> None:
        view = self._nodes[node]
        self._nodes[node] = replace(
            view,
            cpu_free_milli=view.cpu_free_milli + sign * job.cpu_milli,
            memory_free_mib=view.memory_free_mib + sign * job.memory_mib,
        )

    def _put(self, gpu: str, made: SliceView) -> None:
        mode = MODES[made.kind]
        self._gpu(gpu, lambda view: replace(view, mode=mode, slices=(*view.slices, made)))

    def _slices(self, gpu: str, change: Callable[[SliceView], SliceView | None]) -> None:
        def changed(view: GpuView) -> GpuView:
            kept = (change(seen) for seen in view.slices)
            return replace(view, slices=tuple(seen for seen in kept if seen is not None))

        self._gpu(gpu, changed)

    def _gpu(self, gpu: str, change: Callable[[GpuView], GpuView]) -> None:
        node = self._nodes[self._home[gpu]]
        gpus = tuple(change(view) if view.id == gpu else view for view in node.gpus)
        self._nodes[node.id] = replace(node, gpus=gpus)


def _held(seen: SliceView, job: WaitingJob) -> SliceView:
    return replace(seen, held=True, project=job.project)


def _freed(seen: SliceView) -> SliceView | None:
    if seen.kind is not SliceKind.MIG:
        return None
    return replace(seen, held=False, project="")
