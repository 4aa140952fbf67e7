"""The GPUs that a dry run would use: what the request would get on each, and what stays there."""

from dataclasses import dataclass, field

from agents.contract.documents import SliceKind
from portal.planning.snapshot_cache import CachedSnapshot
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.snapshot import GpuView, SliceView

# MPS shares of a GPU are drawn side by side, by percent of its threads.
PERCENT = 100


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a GPU, in memory slots, or in percent of its threads."""

    start: int
    size: int
    profile: str = ""
    """Of a MIG slice."""
    is_held: bool = True
    """Whether a job has it; False for an idle slice."""
    threads: int = 0
    """Percent, of a share for the request: `size` may have room for less."""


@dataclass(slots=True)
class PlannedGpu:
    """A GPU on which the request would get devices."""

    node: str
    index: int
    slots: int
    """Memory slots of the board; 100 where it is shared by threads."""
    planned: list[Span] = field(default_factory=list)
    """For the request."""
    others: list[Span] = field(default_factory=list)
    """Slices and shares that stay."""


def planned_gpus(
    cached: CachedSnapshot, replicas: tuple[ReplicaPlacement, ...]
) -> tuple[PlannedGpu, ...]:
    """By node and index."""
    devices: dict[str, list[DevicePlacement]] = {}
    for replica in replicas:
        for device in replica.devices:
            devices.setdefault(device.gpu, []).append(device)
    found = [
        _planned_gpu(node.name, gpu, devices[gpu.id])
        for node in (cached.snapshot.nodes if devices else ())
        for gpu in node.gpus
        if gpu.id in devices
    ]
    return tuple(sorted(found, key=lambda each: (each.node, each.index)))


def _planned_gpu(node: str, gpu: GpuView, devices: list[DevicePlacement]) -> PlannedGpu:
    if any(device.kind is SliceKind.MPS for device in devices):
        return _shared_gpu(node, gpu, devices)
    planned = [Span(device.start, device.size, device.profile) for device in devices]
    others = [
        Span(view.start, view.size, view.profile, is_held=view.allocated)
        for view in gpu.slices
        if not any(_overlap(view, span) for span in planned)
    ]
    return PlannedGpu(node, gpu.index, gpu_board(gpu).memory_slices, planned, others)


def _shared_gpu(node: str, gpu: GpuView, devices: list[DevicePlacement]) -> PlannedGpu:
    """What others have comes first, without gaps: shares have no places."""
    found, end = PlannedGpu(node, gpu.index, PERCENT), 0
    for view in gpu.slices:
        # MPS allows threads beyond 100 percent together; the drawing ends there.
        size = min(view.threads, PERCENT - end)
        if size:
            found.others.append(Span(end, size, is_held=view.allocated))
            end += size
    for device in devices:
        size = max(1, min(device.threads, PERCENT - end))
        start = min(end, PERCENT - size)
        found.planned.append(Span(start, size, threads=device.threads))
        end = min(PERCENT, end + size)
    return found


def _overlap(view: SliceView, span: Span) -> bool:
    return view.start < span.start + span.size and span.start < view.start + view.size
