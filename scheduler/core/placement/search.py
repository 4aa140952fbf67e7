"""Finds devices for a gang: which node (`fleet` ranks them), which GPU, which slice or place to
carve.

A slice goes where the room that the mix wants falls least (`carving.windows`); an idle one of the
very profile, which starts at once, where that is about equal. Whole GPUs stay whole while they can.
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
from scheduler.core.geometry.profile_demand import PlacementValues, placement_values
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.links import best_set, bottleneck, ring_by_nvlink
from scheduler.core.model.snapshot import Topology, WaitingJob
from scheduler.core.packing.kernels import Bools
from scheduler.core.placement.fleet import Fleet, fleet_of
from scheduler.core.placement.ledger import GpuSpace, Ledger, NodeSpace, free_starts
from scheduler.core.placement.legality import SINGLE_NODE
from scheduler.core.quota.budgets import remaining_seconds

# So many of the best nodes are compared by how fast their GPUs reach each other.
MAX_COMPARED = 8


@dataclass(slots=True)
class GangPlacement:
    """A gang's places. `merges`: idle slices to delete first, by GPU; empty when it can start.
    `rails`: indexes of the first replica's GPUs."""

    replicas: list[ReplicaPlacement] = field(default_factory=list)
    merges: dict[str, list[str]] = field(default_factory=dict)
    rails: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Choice:
    """One device and what it costs to have it there."""

    rank: tuple[float, ...]
    place: DevicePlacement
    gpu: GpuSpace
    destroys: tuple[str, ...] = ()


def find_placement(
    job: WaitingJob, option: DeviceOption, ledger: Ledger, *, merging: bool = False
) -> GangPlacement | None:
    """Places for the whole gang, held on the ledger; or None, with the ledger as it was.

    `merging`: idle slices may be deleted to make room.
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
    want: DeviceOption
    ledger: Ledger
    merging: bool

    def attempts(self) -> Iterator[Callable[[], GangPlacement | None]]:
        """One node where near is better, the best first; then a leaf switch; then a network."""
        job, fleet = self.job, fleet_of(self.ledger)
        if job.topology is not Topology.ANY or job.replicas == 1:
            for node in self._single(fleet):
                yield partial(self._on_one, node)
        if job.topology not in SINGLE_NODE and job.replicas > 1:
            for among in fleet.networks(leaves=job.topology is not Topology.ANY):
                yield partial(self._on_several, fleet, among)

    def _single(self, fleet: Fleet) -> Iterator[NodeSpace]:
        """Of the first few, those whose GPUs form the fastest ring come first."""
        nodes = fleet.nodes_for(self.job, self.want, self.job.replicas, merging=self.merging)
        count = self.want.count * self.job.replicas
        if self.want.kind is not SliceKind.GPU or count == 1 or not fleet.has_links:
            return nodes
        first = list(islice(nodes, MAX_COMPARED))
        speeds = {id(node): self._speed(node, count) for node in first}
        return chain(sorted(first, key=lambda n: -speeds[id(n)]), nodes)

    def _speed(self, node: NodeSpace, count: int) -> int:
        now = self.ledger.snapshot.now
        chosen = _whole_gpus(self.want, node, self.job.replicas, self.merging, (), now)
        return bottleneck(node.view.links, _indexes([c.gpu for c in chosen])) if chosen else 0

    def _on_one(self, node: NodeSpace) -> GangPlacement | None:
        found = GangPlacement()
        if self.want.kind is SliceKind.GPU:
            near = _side_by_side(self.job, self.want, self.ledger, node, self.merging, found)
            return found if near else None
        for rank in range(self.job.replicas):
            if not self._replica(node, rank, found):
                return None
        return found

    def _on_several(self, fleet: Fleet, among: Bools) -> GangPlacement | None:
        """Few nodes for a gang that is better near; evenly spread for one that does not mind."""
        if fleet.has_too_few_nodes(self.job, self.want, among, merging=self.merging):
            return None
        found = GangPlacement()
        used: Counter[str] = Counter()
        for rank in range(self.job.replicas):
            tried = (n for n in self._next(fleet, among, used) if self._replica(n, rank, found))
            if (node := next(tried, None)) is None:
                return None
            used[node.view.id] += 1
        return found

    def _next(self, fleet: Fleet, among: Bools, used: Counter[str]) -> Iterator[NodeSpace]:
        """Where the next replica goes, the best first."""
        names = sorted(used, key=lambda n: (used[n], n))
        mine = [self.ledger.nodes[key] for key in names]
        free = fleet.without(among, names)
        fresh = fleet.nodes_for(self.job, self.want, 1, merging=self.merging, among=free)
        return chain(fresh, mine) if self.job.topology is Topology.ANY else chain(mine, fresh)

    def _replica(self, node: NodeSpace, rank: int, found: GangPlacement) -> bool:
        return _replica(self.job, self.want, self.ledger, node, self.merging, rank, found)


def _side_by_side(
    job: WaitingJob,
    want: DeviceOption,
    ledger: Ledger,
    node: NodeSpace,
    merging: bool,
    found: GangPlacement,
) -> bool:
    """The GPUs of the whole gang on one node, chosen together: all of them are one ring."""
    enough, now = node.can_host(job, job.replicas), ledger.snapshot.now
    chosen = _whole_gpus(want, node, job.replicas, merging, (), now) if enough else None
    if chosen is None:
        return False
    indexes = tuple(sorted(choice.gpu.view.index for choice in chosen))
    if job.topology is Topology.NVLINK and not ring_by_nvlink(node.view.links, indexes):
        return False
    for rank in range(job.replicas):
        own = chosen[rank * want.count : (rank + 1) * want.count]
        _hold(job, ledger, node, rank, own, found)
    return True


def _replica(
    job: WaitingJob,
    want: DeviceOption,
    ledger: Ledger,
    node: NodeSpace,
    merging: bool,
    rank: int,
    found: GangPlacement,
) -> bool:
    """Put one replica on the node, or leave the ledger as it was."""
    if not node.can_host(job):
        return False
    chosen = _devices(job, want, ledger, node, merging, found)
    if chosen is None:
        return False
    _hold(job, ledger, node, rank, chosen, found)
    return True


def _hold(
    job: WaitingJob,
    ledger: Ledger,
    node: NodeSpace,
    rank: int,
    chosen: list[_Choice],
    found: GangPlacement,
) -> None:
    for choice in chosen:
        if choice.destroys:
            ledger.delete_idle(choice.gpu, list(choice.destroys))
            found.merges.setdefault(choice.gpu.view.id, []).extend(choice.destroys)
        ledger.reserve_device(choice.place, job)
    ledger.reserve_host(node, job.cpu_milli, job.memory_mib, job.disk_mib)
    devices = tuple(choice.place for choice in chosen)
    found.replicas.append(ReplicaPlacement(rank=rank, node=node.view.id, devices=devices))
    found.rails = found.rails or tuple(sorted(choice.gpu.view.index for choice in chosen))


def _devices(
    job: WaitingJob,
    want: DeviceOption,
    ledger: Ledger,
    node: NodeSpace,
    merging: bool,
    found: GangPlacement,
) -> list[_Choice] | None:
    gpus = [gpu for gpu in node.open_gpus if gpu.board.key == want.board]
    now = ledger.snapshot.now
    choices: Iterator[_Choice]
    match want.kind:
        case SliceKind.GPU:
            return _whole_gpus(want, node, 1, merging, found.rails, now)
        case SliceKind.MPS:
            choices = _shares(job, want, gpus, node.view.share_clients, merging, now)
        case SliceKind.MIG:
            tables = placement_values(ledger)
            choices = (c for gpu in gpus for c in _slices(want, gpu, merging, now, tables))
    best = min(choices, key=lambda c: c.rank, default=None)
    return [best] if best else None


def _whole_gpus(
    want: DeviceOption,
    node: NodeSpace,
    replicas: int,
    merging: bool,
    rails: tuple[int, ...],
    now: int,
) -> list[_Choice] | None:
    """Empty GPUs for so many replicas, by the fastest ring; of equally fast ones those that can be
    given as they are. `rails`: what the gang has on another node."""
    gpus = [gpu for gpu in node.open_gpus if gpu.board.key == want.board]
    free = [g for g in gpus if g.is_empty or (merging and _may_clear(g, now))]
    count = want.count * replicas
    if len(free) < count:
        return None
    empty = [g for g in free if not g.slices]
    pools = [[g for g in empty if g.view.mode is GpuMode.WHOLE], empty, free]
    sets = [_set(node, pool, count, rails) for pool in pools if len(pool) >= count]
    fastest = bottleneck(node.view.links, _indexes(sets[-1]))
    best = next(s for s in sets if bottleneck(node.view.links, _indexes(s)) == fastest)
    return [_Choice((), _place(want, gpu, 0), gpu, tuple(gpu.slices)) for gpu in best]


def _set(
    node: NodeSpace, pool: list[GpuSpace], count: int, rails: tuple[int, ...]
) -> list[GpuSpace]:
    numa = tuple((g.view.index, -1 if g.view.numa_node is None else g.view.numa_node) for g in pool)
    chosen = best_set(node.view.links, tuple(sorted(numa)), count, rails)
    return [gpu for gpu in pool if gpu.view.index in chosen]


def _indexes(gpus: list[GpuSpace]) -> tuple[int, ...]:
    return tuple(sorted(gpu.view.index for gpu in gpus))


def _shares(
    job: WaitingJob, want: DeviceOption, gpus: list[GpuSpace], clients: int, merging: bool, now: int
) -> Iterator[_Choice]:
    """Beside shares of the project where the least is left over, else on an empty GPU."""
    for gpu in gpus:
        if merging and fixed_reason(gpu.view, now):
            continue
        left = gpu.share_room(job.project, clients, without_idle=merging)
        if left is None or not left.max_shares(want.threads, want.memory_mib, job.processes):
            continue
        idle = filter(gpu.is_idle, gpu.slices) if merging else ()
        destroys = tuple(idle)
        other_mode = gpu.view.mode is not GpuMode.MPS
        rank = (len(destroys), not gpu.is_shared, left.threads, other_mode, gpu.view.index)
        yield _Choice(rank, _place(want, gpu, 0), gpu, destroys)


def _may_clear(gpu: GpuSpace, now: int) -> bool:
    return all(map(gpu.is_idle, gpu.slices)) and fixed_reason(gpu.view, now) is None


def _slices(
    want: DeviceOption, gpu: GpuSpace, merging: bool, now: int, tables: PlacementValues
) -> Iterator[_Choice]:
    """Rank: how much V falls, in its own units, judged by what is held: idle slices give way. Of
    equal ones that which need not change its mode."""
    yield from _idle_slices(want, gpu, tables)
    profile = gpu.board.profile(want.profile)
    if profile is None or gpu.view.pinned or not gpu.may_carve(without_idle=merging):
        return
    if merging:
        if fixed_reason(gpu.view, now) is None:
            yield from _merged(want, gpu, tables)
        return
    held, other_mode = gpu.layout(without_idle=True), gpu.view.mode is not GpuMode.MIG
    for place in free_starts(gpu.board, profile, gpu.layout()):
        lost = tables.loss(gpu.board, held, place)
        rank = (lost, lost + other_mode, gpu.view.index, place.start)
        yield _Choice(rank, _place(want, gpu, place.start), gpu)


def _merged(want: DeviceOption, gpu: GpuSpace, tables: PlacementValues) -> Iterator[_Choice]:
    """The cheapest change of this GPU that makes room and touches nothing that is held."""
    held = gpu.layout(without_idle=True)
    idle = {key: seen for key, seen in gpu.slices.items() if gpu.is_idle(key)}
    if any(seen.kind is not SliceKind.MIG for seen in idle.values()):
        # The GPU still has to change its mode: nothing idle stays.
        kept, goes = held, list(idle)
    else:
        kept = held | {Placement(s.start, s.size, s.profile) for s in idle.values()}
        goes = []
    table = layout_table(gpu.board)
    change = table.make_room(kept, want.profile, in_use=held) if table.is_legal(kept) else None
    if change is None:
        return
    (place,) = change.creates
    deleted = {p.start for p in change.deletes}
    destroys = (*goes, *(key for key, seen in idle.items() if seen.start in deleted))
    lost = tables.loss(gpu.board, held, place)
    rank = (lost + READY_BONUS * len(destroys), lost, gpu.view.index, place.start)
    yield _Choice(rank, _place(want, gpu, place.start), gpu, destroys)


def _idle_slices(want: DeviceOption, gpu: GpuSpace, tables: PlacementValues) -> Iterator[_Choice]:
    held = gpu.layout(without_idle=True)
    for key, seen in gpu.slices.items():
        if seen.profile == want.profile and seen.ready and gpu.is_idle(key):
            place = Placement(seen.start, seen.size, seen.profile)
            lost = tables.loss(gpu.board, held, place)
            rank = (lost - tables.ready_bonus, lost, gpu.view.index, seen.start)
            yield _Choice(rank, _place(want, gpu, seen.start, key), gpu)


def _place(want: DeviceOption, gpu: GpuSpace, start: int, slice_id: str = "") -> DevicePlacement:
    return DevicePlacement(
        gpu=gpu.view.id,
        kind=want.kind,
        profile=want.profile,
        start=start,
        size=want.size,
        units=want.units,
        memory_mib=want.memory_mib,
        slice=slice_id,
        threads=want.threads,
    )
