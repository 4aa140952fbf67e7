"""Finds devices for a gang: the node (ranked by `fleet`), the GPU, the slice or place to carve.

A slice goes where the room for the expected demand shrinks least (`geometry.placement_value`). At
about equal cost it goes to an idle slice of the same profile, which starts at once. Whole GPUs stay
whole as long as possible.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice

from agents.contract.documents import GpuMode, SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from scheduler.core.devices.gpu_changes import fixed_reason
from scheduler.core.devices.options import DeviceOption
from scheduler.core.geometry.placement_value import READY_BONUS
from scheduler.core.geometry.profile_demand import PlacementValues, roomy_boards
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.links import best_set, bottleneck, ring_by_nvlink
from scheduler.core.model.snapshot import SINGLE_NODE, Topology, WaitingJob
from scheduler.core.packing.kernels import Bools
from scheduler.core.placement.fleet import Fleet, fleet_of
from scheduler.core.placement.ledger import GpuSpace, Layout, Ledger, NodeSpace
from scheduler.core.placement.slow_pairs import SlowPairs, slow_pairs_of
from scheduler.core.quota.budgets import remaining_seconds

# The best nodes, up to this number, are compared by the speed of the links between their GPUs.
MAX_COMPARED = 8


@dataclass(slots=True)
class GangPlacement:
    """Where a gang goes."""

    replicas: list[ReplicaPlacement] = field(default_factory=list)
    merges: dict[str, list[str]] = field(default_factory=dict)
    """Idle slices to delete first, by GPU; empty if the gang can start at once."""
    rails: tuple[int, ...] = ()
    """Indexes of the first replica's GPUs."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """One device, and what it costs to place it there."""

    rank: tuple[float, ...]
    place: DevicePlacement
    gpu: GpuSpace
    deleted_ids: tuple[str, ...] = ()


def find_placement(
    job: WaitingJob, option: DeviceOption, ledger: Ledger, *, merging: bool = False
) -> GangPlacement | None:
    """Place the whole gang and reserve its devices on the ledger; None leaves the ledger unchanged.

    `merging`: whether idle slices may be deleted to make room.
    """
    search = _Search(job, option, ledger, merging)
    for attempt in search.attempts():
        mark = ledger.mark()
        found = attempt()
        if found is not None:
            units = option.replica_units * job.replicas
            ledger.charge(job.project, job.user, units, option.board, remaining_seconds(job))
            return found
        ledger.rollback(mark)
    return None


@dataclass(frozen=True, slots=True)
class _Search:
    """One gang's search for one kind of device."""

    job: WaitingJob
    option: DeviceOption
    ledger: Ledger
    merging: bool

    def attempts(self) -> Iterator[Callable[[], GangPlacement | None]]:
        """Single nodes, the best first, unless the topology is `any`; then leaf switches; then
        networks. Where pairs of nodes are slow, first without any of these."""
        job, fleet = self.job, fleet_of(self.ledger)
        if job.topology is not Topology.ANY or job.replicas == 1:
            for node in self._single(fleet):
                yield partial(self._on_one, node)
        if job.topology not in SINGLE_NODE and job.replicas > 1:
            networks, slow = fleet.networks(job), slow_pairs_of(self.ledger)
            if slow:
                yield from (partial(self._on_several, fleet, n, slow) for n in networks)
                left = [fleet.without(among, slow.cover) for among in networks]
                yield from (partial(self._on_several, fleet, n, slow) for n in left)
            for among in networks:
                yield partial(self._on_several, fleet, among)

    def _single(self, fleet: Fleet) -> Iterator[NodeSpace]:
        """The ranked nodes; of the first few, those whose GPUs form the fastest ring come first."""
        nodes = fleet.nodes_for(self.job, self.option, self.job.replicas, merging=self.merging)
        count = self.option.count * self.job.replicas
        if self.option.kind is not SliceKind.GPU or count == 1 or not fleet.has_links:
            return nodes
        first = list(islice(nodes, MAX_COMPARED))
        speeds = {id(node): self._speed(node, count) for node in first}
        return chain(sorted(first, key=lambda n: -speeds[id(n)]), nodes)

    def _speed(self, node: NodeSpace, count: int) -> int:
        now = self.ledger.snapshot.now
        chosen = _whole_gpus(self.option, node, self.job.replicas, self.merging, (), now)
        return bottleneck(node.view.links, _indexes([c.gpu for c in chosen])) if chosen else 0

    def _on_one(self, node: NodeSpace) -> GangPlacement | None:
        found = GangPlacement()
        if self.option.kind is SliceKind.GPU:
            near = _side_by_side(self.job, self.option, self.ledger, node, self.merging, found)
            return found if near else None
        for rank in range(self.job.replicas):
            if not self._replica(node, rank, found):
                return None
        return found

    def _on_several(
        self, fleet: Fleet, among: Bools, avoided: SlowPairs | None = None
    ) -> GangPlacement | None:
        """On as few nodes as possible, or evenly spread if the topology is `any`. `avoided`: pairs
        of which it is not on both nodes."""
        if fleet.has_too_few_nodes(self.job, self.option, among, merging=self.merging):
            return None
        found = GangPlacement()
        replicas_on: Counter[str] = Counter()
        for rank in range(self.job.replicas):
            ranked = self._next(fleet, among, replicas_on)
            if avoided:
                ranked = (n for n in ranked if not avoided.is_slow_with_any(n.view.id, replicas_on))
            tried = (n for n in ranked if self._replica(n, rank, found))
            if (node := next(tried, None)) is None:
                return None
            replicas_on[node.view.id] += 1
        return found

    def _next(self, fleet: Fleet, among: Bools, replicas_on: Counter[str]) -> Iterator[NodeSpace]:
        """Nodes for the next replica, the best first."""
        names = sorted(replicas_on, key=lambda n: (replicas_on[n], n))
        begun = [self.ledger.nodes[key] for key in names]
        free = fleet.without(among, names)
        fresh = fleet.nodes_for(self.job, self.option, 1, merging=self.merging, among=free)
        return chain(fresh, begun) if self.job.topology is Topology.ANY else chain(begun, fresh)

    def _replica(self, node: NodeSpace, rank: int, found: GangPlacement) -> bool:
        return _replica(self.job, self.option, self.ledger, node, self.merging, rank, found)


def _side_by_side(
    job: WaitingJob,
    option: DeviceOption,
    ledger: Ledger,
    node: NodeSpace,
    merging: bool,
    found: GangPlacement,
) -> bool:
    """Place the whole gang on one node. Its GPUs form one ring, so they are chosen together."""
    enough, now = node.can_host(job, job.replicas), ledger.snapshot.now
    chosen = _whole_gpus(option, node, job.replicas, merging, (), now) if enough else None
    if chosen is None:
        return False
    indexes = tuple(sorted(choice.gpu.view.index for choice in chosen))
    if job.topology is Topology.NVLINK and not ring_by_nvlink(node.view.links, indexes):
        return False
    for rank in range(job.replicas):
        own = chosen[rank * option.count : (rank + 1) * option.count]
        _reserve(job, ledger, node, rank, own, found)
    return True


def _replica(
    job: WaitingJob,
    option: DeviceOption,
    ledger: Ledger,
    node: NodeSpace,
    merging: bool,
    rank: int,
    found: GangPlacement,
) -> bool:
    """Put one replica on the node, or leave the ledger as it was."""
    if not node.can_host(job):
        return False
    chosen = _devices(job, option, ledger, node, merging, found)
    if chosen is None:
        return False
    _reserve(job, ledger, node, rank, chosen, found)
    return True


def _reserve(
    job: WaitingJob,
    ledger: Ledger,
    node: NodeSpace,
    rank: int,
    chosen: list[_Choice],
    found: GangPlacement,
) -> None:
    for choice in chosen:
        if choice.deleted_ids:
            ledger.delete_idle(choice.gpu, list(choice.deleted_ids))
            found.merges.setdefault(choice.gpu.view.id, []).extend(choice.deleted_ids)
        ledger.reserve_device(choice.place, job)
    ledger.reserve_host(node, job.cpu_milli, job.memory_mib, job.disk_mib)
    devices = tuple(choice.place for choice in chosen)
    found.replicas.append(ReplicaPlacement(rank=rank, node=node.view.id, devices=devices))
    found.rails = found.rails or tuple(sorted(choice.gpu.view.index for choice in chosen))


def _devices(
    job: WaitingJob,
    option: DeviceOption,
    ledger: Ledger,
    node: NodeSpace,
    merging: bool,
    found: GangPlacement,
) -> list[_Choice] | None:
    gpus = [gpu for gpu in node.open_gpus if gpu.board.key == option.board]
    now = ledger.snapshot.now
    choices: Iterator[_Choice]
    match option.kind:
        case SliceKind.GPU:
            return _whole_gpus(option, node, 1, merging, found.rails, now)
        case SliceKind.MPS:
            choices = _shares(job, option, gpus, node.view.share_clients, merging, now)
        case SliceKind.MIG:
            values = placement_values(ledger)
            choices = (c for gpu in gpus for c in _slices(option, gpu, merging, now, values))
    best = min(choices, key=lambda c: c.rank, default=None)
    return [best] if best else None


def _whole_gpus(
    option: DeviceOption,
    node: NodeSpace,
    replicas: int,
    merging: bool,
    rails: tuple[int, ...],
    now: int,
) -> list[_Choice] | None:
    """Empty GPUs for this many replicas: the fastest ring, and of equally fast ones those that need
    no change. `rails`: indexes of the gang's GPUs on another node."""
    gpus = [gpu for gpu in node.open_gpus if gpu.board.key == option.board]
    free = [g for g in gpus if g.is_empty or (merging and _may_clear(g, now))]
    count = option.count * replicas
    if len(free) < count:
        return None
    empty = [g for g in free if not g.slices]
    pools = [[g for g in empty if g.view.mode is GpuMode.WHOLE], empty, free]
    sets = [_set(node, pool, count, rails) for pool in pools if len(pool) >= count]
    fastest = bottleneck(node.view.links, _indexes(sets[-1]))
    best = next(s for s in sets if bottleneck(node.view.links, _indexes(s)) == fastest)
    return [_Choice((), _place(option, gpu, 0), gpu, tuple(gpu.slices)) for gpu in best]


def _set(
    node: NodeSpace, pool: list[GpuSpace], count: int, rails: tuple[int, ...]
) -> list[GpuSpace]:
    numa = tuple((g.view.index, -1 if g.view.numa_node is None else g.view.numa_node) for g in pool)
    chosen = best_set(node.view.links, tuple(sorted(numa)), count, rails)
    return [gpu for gpu in pool if gpu.view.index in chosen]


def _indexes(gpus: list[GpuSpace]) -> tuple[int, ...]:
    return tuple(sorted(gpu.view.index for gpu in gpus))


def _shares(
    job: WaitingJob,
    option: DeviceOption,
    gpus: list[GpuSpace],
    clients: int,
    merging: bool,
    now: int,
) -> Iterator[_Choice]:
    """Beside shares of the project, on the GPU with the least room left; else on an empty GPU."""
    for gpu in gpus:
        if merging and fixed_reason(gpu.view, now):
            continue
        left = gpu.share_room(job.project, clients, without_idle=merging)
        if left is None or not left.max_shares(option.threads, option.memory_mib, job.processes):
            continue
        idle = filter(gpu.is_idle, gpu.slices) if merging else ()
        deleted_ids = tuple(idle)
        changes_mode = gpu.view.mode is not GpuMode.MPS
        rank = (len(deleted_ids), not gpu.is_shared, left.threads, changes_mode, gpu.view.index)
        yield _Choice(rank, _place(option, gpu, 0), gpu, deleted_ids)


def _may_clear(gpu: GpuSpace, now: int) -> bool:
    return all(map(gpu.is_idle, gpu.slices)) and fixed_reason(gpu.view, now) is None


def placement_values(ledger: Ledger) -> PlacementValues:
    """What MIG placements cost in the pass of this ledger."""
    snapshot = ledger.snapshot

    def compute() -> PlacementValues:
        return PlacementValues(snapshot.mix, roomy_boards(snapshot))

    return ledger.cached("placement values", compute, for_whole_pass=True)


def _slices(
    option: DeviceOption, gpu: GpuSpace, merging: bool, now: int, values: PlacementValues
) -> Iterator[_Choice]:
    """Rank: how much V falls beside the allocated slices alone, as idle slices give way. Of equal
    choices, one that needs no change of mode."""
    yield from _idle_slices(option, gpu, values)
    profile = gpu.board.profile(option.profile)
    if profile is None or gpu.view.pinned or not gpu.may_carve(without_idle=merging):
        return
    if merging:
        if fixed_reason(gpu.view, now) is None:
            yield from _merged(option, gpu, values)
        return
    allocated, changes_mode = gpu.layout(without_idle=True), gpu.view.mode is not GpuMode.MIG
    for place in gpu.free_starts(option.profile):
        lost = values.loss(gpu.board, allocated, place)
        rank = (lost, lost + changes_mode, gpu.view.index, place.start)
        yield _Choice(rank, _place(option, gpu, place.start), gpu)


def merge_layouts(gpu: GpuSpace) -> tuple[Layout, Layout, list[str]]:
    """Before a merge on the GPU: what is allocated; with it, the idle slices that may stay; and the
    ids of those that go in any case."""
    allocated = gpu.layout(without_idle=True)
    idle = {key: view for key, view in gpu.slices.items() if gpu.is_idle(key)}
    if any(view.kind is not SliceKind.MIG for view in idle.values()):
        # The GPU still has to change its mode, so no idle slice stays.
        return allocated, allocated, list(idle)
    return allocated, allocated | {Placement(s.start, s.size, s.profile) for s in idle.values()}, []


def _merged(option: DeviceOption, gpu: GpuSpace, values: PlacementValues) -> Iterator[_Choice]:
    """The cheapest change of this GPU that makes room without touching an allocated slice."""
    allocated, staying, going = merge_layouts(gpu)
    table = layout_table(gpu.board)
    change = (
        table.make_room(staying, option.profile, in_use=allocated)
        if table.is_legal(staying)
        else None
    )
    if change is None:
        return
    (place,) = change.creates
    deleted = {p.start for p in change.deletes}
    idle = (key for key in gpu.slices if gpu.is_idle(key))
    deleted_ids = (*going, *(key for key in idle if gpu.slices[key].start in deleted))
    lost = values.loss(gpu.board, allocated, place)
    rank = (lost + READY_BONUS * len(deleted_ids), lost, gpu.view.index, place.start)
    yield _Choice(rank, _place(option, gpu, place.start), gpu, deleted_ids)


def _idle_slices(option: DeviceOption, gpu: GpuSpace, values: PlacementValues) -> Iterator[_Choice]:
    allocated = gpu.layout(without_idle=True)
    for key, view in gpu.slices.items():
        if view.profile == option.profile and view.ready and gpu.is_idle(key):
            place = Placement(view.start, view.size, view.profile)
            lost = values.loss(gpu.board, allocated, place)
            rank = (lost - values.ready_bonus, lost, gpu.view.index, view.start)
            yield _Choice(rank, _place(option, gpu, view.start, key), gpu)


def _place(option: DeviceOption, gpu: GpuSpace, start: int, slice_id: str = "") -> DevicePlacement:
    return DevicePlacement(
        gpu=gpu.view.id,
        kind=option.kind,
        profile=option.profile,
        start=start,
        size=option.size,
        units=option.units,
        memory_mib=option.memory_mib,
        slice=slice_id,
        threads=option.threads,
    )
