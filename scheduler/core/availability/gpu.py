"""The availability of one GPU."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

from agents.contract.documents import SliceKind
from agents.contract.layouts import layout_table
from agents.contract.units import UNITS_PER_GPU, slice_units
from scheduler.core.availability.counts import (
    MPS_SHARE,
    WHOLE_GPU,
    Availability,
    Category,
    DeviceCount,
    DeviceKind,
)
from scheduler.core.devices.gpu_changes import fixed_reason
from scheduler.core.model.snapshot import SliceView
from scheduler.core.placement.ledger import GpuSpace, NodeSpace
from scheduler.core.placement.search import merge_layouts


class GpuClass(NamedTuple):
    """GPUs for which availability is the same."""

    board: int
    """Id of the object: boards with a key in common may differ in what their drivers report."""
    is_available: bool
    """Its node takes work."""
    is_healthy: bool
    has_host: bool
    """Its node has CPU and memory left."""
    takes_shares: bool
    may_merge: bool
    is_pinned: bool
    slices: tuple[tuple[object, ...], ...]


def gpu_class(node: NodeSpace, gpu: GpuSpace, now: int, *, can_merge: bool) -> GpuClass:
    """The class of a GPU on the ledger of a pass at `now`."""
    slices = []
    for key, v in (*gpu.slices.items(), *gpu.deleted_slices.items()):
        size = (v.kind, v.profile, v.start, v.size, v.threads, v.memory_mib)
        state = (v.allocated, v.ready, bool(v.project), key in gpu.reserved_slices)
        slices.append((*size, *state, _is_new(key), key in gpu.deleted_slices))
    return GpuClass(
        board=id(gpu.board),
        is_available=node.view.available,
        is_healthy=gpu.view.healthy,
        has_host=node.cpu_free_milli > 0 and node.memory_free_mib > 0,
        takes_shares=node.view.share_clients > 0,
        may_merge=can_merge and fixed_reason(gpu.view, now) is None,
        is_pinned=gpu.view.pinned,
        slices=tuple(sorted(slices)),
    )


def _is_new(slice_id: str) -> bool:
    """Whether this pass makes the slice."""
    return slice_id.startswith("~")


def gpu_availability(gpu: GpuSpace, key: GpuClass) -> Availability:
    """`key`: its class."""
    return _GpuCount(gpu, key).result()


class _GpuCount:
    """The availability of one GPU."""

    def __init__(self, gpu: GpuSpace, key: GpuClass) -> None:
        self._gpu, self._class, self._board = gpu, key, gpu.board
        self._idle = [view for id, view in gpu.slices.items() if gpu.is_idle(id)]

    def result(self) -> Availability:
        found = Availability(gpus=1)
        if not self._class.is_healthy:
            found.out_of_service = 1
        elif not self._class.is_available:
            found.on_unavailable_nodes = 1
        else:
            found.in_service = 1
            found.idle_slices = sum(1 for v in self._idle if v.ready and v.kind is SliceKind.MIG)
            found.devices = self._devices()
        found.units = self._units(found)
        return found

    def _devices(self) -> dict[DeviceKind, DeviceCount]:
        found = {WHOLE_GPU: self._whole_gpu()}
        for profile in self._board.profiles:
            found[DeviceKind(SliceKind.MIG, profile.name)] = self._slices(profile.name)
        if self._class.takes_shares:
            found[MPS_SHARE] = self._share()
        if not self._class.has_host:
            return {kind: DeviceCount(total=count.total) for kind, count in found.items()}
        return found

    def _whole_gpu(self) -> DeviceCount:
        return DeviceCount(ready=self._gpu.is_empty, recarvable=self._can_clear, total=1)

    def _share(self) -> DeviceCount:
        return DeviceCount(carvable=self._gpu.is_empty, recarvable=self._can_clear, total=1)

    @property
    def _can_clear(self) -> bool:
        """Whether deleting its idle slices leaves it empty."""
        gpu = self._gpu
        return bool(gpu.slices) and self._class.may_merge and all(map(gpu.is_idle, gpu.slices))

    def _slices(self, profile: str) -> DeviceCount:
        gpu = self._gpu
        empty = layout_table(self._board).free_beside(()).max_count[profile]
        count = DeviceCount(total=empty)
        if gpu.is_allocated_whole:
            return count
        count.ready = sum(1 for view in self._idle if view.ready and view.profile == profile)
        if self._class.is_pinned:
            return count
        if gpu.may_carve():
            count.carvable = self._max_beside_all.get(profile, 0)
        count.recarvable = max(0, self._max_after_merges.get(profile, 0) - count.available)
        return count

    @cached_property
    def _max_beside_all(self) -> Mapping[str, int]:
        """How many more slices fit beside all that is on the GPU, by profile."""
        layout = self._gpu.layout()
        if any(not place.profile for place in layout):  # given whole
            return {}
        return layout_table(self._board).free_beside(layout).max_count

    @cached_property
    def _max_after_merges(self) -> Mapping[str, int]:
        """How many slices fit beside the held ones if every idle one may go, by profile."""
        gpu = self._gpu
        leaving = self._idle or gpu.deleted_slices
        if not (leaving and self._class.may_merge and gpu.may_carve(without_idle=True)):
            return {}
        allocated, staying, _ = merge_layouts(gpu)
        table = layout_table(self._board)
        return table.free_beside(allocated).max_count if table.is_legal(staying) else {}

    def _units(self, counted: Availability) -> Counter[Category]:
        """Sizes of slices may add up to more than the GPU, as a 4g.71gb and a 3g.71gb do: then the
        GPU is full."""
        left, found = UNITS_PER_GPU, Counter[Category]()

        def take(category: Category, units: int) -> None:
            nonlocal left
            found[category] += min(left, units)
            left -= min(left, units)

        for key, view in self._gpu.slices.items():
            if not self._gpu.is_idle(key):
                is_held = view.allocated and not _is_new(key)
                take(Category.HELD if is_held else Category.RESERVED, self._units_of(view))
        if not self._class.is_healthy:
            take(Category.OUT_OF_SERVICE, left)
        elif not self._class.is_available:
            take(Category.NODE_UNAVAILABLE, left)
        elif any(v.kind is SliceKind.MPS for v in self._gpu.slices.values() if v.project):
            take(Category.SHARED, left)
        else:
            self._split_rest(counted, take, left)
        return +found

    def _split_rest(
        self, counted: Availability, take: Callable[[Category, int], None], rest: int
    ) -> None:
        """Give what no job holds on a GPU in service, `rest` units, to its categories."""
        counts = counted.devices.values()
        carves = any(count.carvable for count in counts) or self._gpu.is_empty
        idle = sum(map(self._units_of, self._idle))
        if any(count.recarvable for count in counts):
            take(Category.RECARVABLE, idle)
            take(Category.FREE if carves else Category.RECARVABLE, rest)
        elif counted.has_room:
            take(Category.FREE, sum(self._units_of(view) for view in self._idle if view.ready))
            take(Category.FREE if carves else Category.UNUSABLE, rest)
        else:
            take(Category.UNUSABLE, rest)

    def _units_of(self, view: SliceView) -> int:
        board = self._board
        if view.kind is SliceKind.MPS:
            memory = min(view.memory_mib, board.memory_mib)
            return slice_units(min(view.threads, 100), 100, memory, board.memory_mib)
        profile = board.profile(view.profile) if view.profile else None
        return board.units(profile) if profile else UNITS_PER_GPU
