"""Finds devices for a gang: which node, which GPU, which slice or place to carve.

Ranking, best first: an idle slice of the very profile; then the place that destroys least room on a
GPU that is carved already; then an empty GPU. Whole GPUs stay whole as long as they can.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from agents.contract.documents import GpuMode, SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layouts
from scheduler.core.decisions import ReplicaPlace, SlicePlace
from scheduler.core.eligible import why_not
from scheduler.core.fits import NEAR
from scheduler.core.ledger import GpuSpace, Ledger, NodeSpace, room, starts
from scheduler.core.links import best_set, bottleneck, ring_by_nvlink
from scheduler.core.values import Topology, WaitingJob
from scheduler.core.wants import Want


@dataclass(slots=True)
class Found:
    """A gang's places. `merges`: idle slices to delete first, by GPU; empty when it can start.
    `rails`: indexes of the first replica's GPUs."""

    replicas: list[ReplicaPlace] = field(default_factory=list)
    merges: dict[str, list[str]] = field(default_factory=dict)
    rails: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Choice:
    """One device and what it costs to have it there."""

    rank: tuple[int, ...]
    place: SlicePlace
    gpu: GpuSpace
    destroys: tuple[str, ...] = ()


def find(job: WaitingJob, want: Want, ledger: Ledger, *, merging: bool = False) -> Found | None:
    """Places for the whole gang, held on the ledger; or None, with the ledger as it was.

    `merging`: idle slices may be deleted to make room.
    """
    for nodes in _node_sets(job, want, ledger):
        mark = ledger.mark()
        found = _gang(job, want, ledger, nodes, merging)
        if found is not None:
            ledger.charge(job.project, job.user, want.replica_units * job.replicas)
            return found
        ledger.rollback(mark)
    return None


def _node_sets(job: WaitingJob, want: Want, ledger: Ledger) -> Iterator[list[NodeSpace]]:
    """Sets of nodes to try in turn: single nodes where near is better, then whole networks."""
    usable = [n for n in ledger.nodes.values() if _is_usable(n, job, want)]
    usable.sort(key=lambda n: (n.view.fabric, n.view.leaf, n.view.name, n.view.id))
    if job.topology is not Topology.ANY or job.replicas == 1:
        # The fullest node that still serves: emptier ones are left for larger work.
        for node in sorted(usable, key=lambda n: (*_room(n, job, want), n.view.name)):
            yield [node]
    if job.topology not in NEAR and job.replicas > 1:
        if job.topology is not Topology.ANY:
            yield from _leaves(usable)
        for _, nodes in groupby(usable, key=lambda n: n.view.fabric):
            yield list(nodes)


def _leaves(usable: list[NodeSpace]) -> list[list[NodeSpace]]:
    """The nodes of each leaf switch, smaller leaves first; of networks that have several."""
    groups = groupby(usable, key=lambda n: (n.view.fabric, n.view.leaf))
    leaves = {key: list(nodes) for key, nodes in groups}
    networks = Counter(fabric for fabric, _ in leaves)
    named = [nodes for (fabric, leaf), nodes in leaves.items() if leaf and networks[fabric] > 1]
    return sorted(named, key=len)


def _is_usable(node: NodeSpace, job: WaitingJob, want: Want) -> bool:
    return (
        node.view.available
        and not why_not(node.view, job)
        and node.cpu_free_milli >= job.cpu_milli
        and node.memory_free_mib >= job.memory_mib
        and any(g.view.healthy and g.board.key == want.board for g in node.gpus)
    )


def _room(node: NodeSpace, job: WaitingJob, want: Want) -> tuple[int, int]:
    """Small on a full node: free GPUs, then free memory slices. A share goes first to where the
    project has shares already."""
    alike = [gpu for gpu in node.gpus if gpu.board.key == want.board]
    free = sum(
        8 * gpu.is_empty + gpu.board.memory_slices - sum(s.size for s in gpu.slices.values())
        for gpu in alike
        if not gpu.is_shared
    )
    if want.kind is not SliceKind.MPS:
        return 0, free
    clients = node.view.share_clients
    beside = (gpu.left_for(job.project, clients) for gpu in alike if gpu.is_shared)
    size = (want.threads, want.memory_mib, job.processes)
    return -any(left and left.shares(*size) for left in beside), free


def _gang(
    job: WaitingJob, want: Want, ledger: Ledger, nodes: list[NodeSpace], merging: bool
) -> Found | None:
    found = Found()
    if len(nodes) == 1 and want.kind is SliceKind.GPU:
        return found if _side_by_side(job, want, ledger, nodes[0], merging, found) else None
    placed = dict.fromkeys((node.view.id for node in nodes), 0)
    for rank in range(job.replicas):
        # Spread over the least used node first; with one node there is nothing to choose.
        order = sorted(nodes, key=lambda n: (placed[n.view.id], n.view.name, n.view.id))
        tried = (n for n in order if _replica(job, want, ledger, n, merging, rank, found))
        if (node := next(tried, None)) is None:
            return None
        placed[node.view.id] += 1
    return found


def _side_by_side(
    job: WaitingJob, want: Want, ledger: Ledger, node: NodeSpace, merging: bool, found: Found
) -> bool:
    """The GPUs of the whole gang on one node, chosen together: all of them are one ring."""
    enough = (
        node.cpu_free_milli >= job.cpu_milli * job.replicas
        and node.memory_free_mib >= job.memory_mib * job.replicas
    )
    chosen = _whole_gpus(want, node, job.replicas, merging, ()) if enough else None
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
    want: Want,
    ledger: Ledger,
    node: NodeSpace,
    merging: bool,
    rank: int,
    found: Found,
) -> bool:
    """Put one replica on the node, or leave the ledger as it was."""
    if node.cpu_free_milli < job.cpu_milli or node.memory_free_mib < job.memory_mib:
        return False
    chosen = _devices(job, want, node, merging, found)
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
    found: Found,
) -> None:
    for choice in chosen:
        if choice.destroys:
            ledger.drop_idle(choice.gpu, list(choice.destroys))
            found.merges.setdefault(choice.gpu.view.id, []).extend(choice.destroys)
        ledger.hold_device(choice.place, job)
    ledger.hold_node(node, job.cpu_milli, job.memory_mib)
    devices = tuple(choice.place for choice in chosen)
    found.replicas.append(ReplicaPlace(rank=rank, node=node.view.id, devices=devices))
    found.rails = found.rails or tuple(sorted(choice.gpu.view.index for choice in chosen))


def _devices(
    job: WaitingJob, want: Want, node: NodeSpace, merging: bool, found: Found
) -> list[_Choice] | None:
    gpus = [g for g in node.gpus if g.view.healthy and g.board.key == want.board]
    choices: Iterator[_Choice]
    match want.kind:
        case SliceKind.GPU:
            return _whole_gpus(want, node, 1, merging, found.rails)
        case SliceKind.MPS:
            choices = _shares(job, want, gpus, node.view.share_clients, merging)
        case SliceKind.MIG:
            choices = (choice for gpu in gpus for choice in _slices(want, gpu, merging))
    best = min(choices, key=lambda c: c.rank, default=None)
    return [best] if best else None


def _whole_gpus(
    want: Want, node: NodeSpace, replicas: int, merging: bool, rails: tuple[int, ...]
) -> list[_Choice] | None:
    """Empty GPUs for so many replicas, by the fastest ring; of equally fast ones those that can be
    given as they are. `rails`: what the gang has on another node."""
    gpus = [g for g in node.gpus if g.view.healthy and g.board.key == want.board]
    free = [g for g in gpus if g.is_empty or (merging and all(map(g.is_idle, g.slices)))]
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
    job: WaitingJob, want: Want, gpus: list[GpuSpace], clients: int, merging: bool
) -> Iterator[_Choice]:
    """Beside shares of the project where the least is left over, else on an empty GPU."""
    for gpu in gpus:
        left = gpu.left_for(job.project, clients, without_idle=merging)
        if left is None or not left.shares(want.threads, want.memory_mib, job.processes):
            continue
        idle = filter(gpu.is_idle, gpu.slices) if merging else ()
        destroys = tuple(idle)
        other_mode = gpu.view.mode is not GpuMode.MPS
        rank = (len(destroys), not gpu.is_shared, left.threads, other_mode, gpu.view.index)
        yield _Choice(rank, _place(want, gpu, 0), gpu, destroys)


def _slices(want: Want, gpu: GpuSpace, merging: bool) -> Iterator[_Choice]:
    yield from _idle_slices(want, gpu)
    profile = gpu.board.profile(want.profile)
    if profile is None or not gpu.may_carve(without_idle=merging):
        return
    if merging:
        yield from _merged(want, gpu)
        return
    layout = gpu.layout()
    before = room(gpu.board, layout)
    for place in starts(gpu.board, profile, layout):
        lost = before - room(gpu.board, layout | {place})
        rank = (1, 0, not gpu.is_carved, lost, before, gpu.view.index, place.start)
        yield _Choice(rank, _place(want, gpu, place.start), gpu)


def _merged(want: Want, gpu: GpuSpace) -> Iterator[_Choice]:
    """The cheapest change of this GPU that makes room and touches nothing that is held."""
    held = gpu.layout(without_idle=True)
    idle = {key: seen for key, seen in gpu.slices.items() if gpu.is_idle(key)}
    if any(seen.kind is not SliceKind.MIG for seen in idle.values()):
        # The GPU still has to change its mode: nothing idle stays.
        kept, goes = held, list(idle)
    else:
        kept = held | {Placement(s.start, s.size, s.profile) for s in idle.values()}
        goes = []
    table = layouts(gpu.board)
    change = table.make_room(kept, want.profile, held=held) if table.is_legal(kept) else None
    if change is None:
        return
    (place,) = change.makes
    deleted = {p.start for p in change.deletes}
    destroys = (*goes, *(key for key, seen in idle.items() if seen.start in deleted))
    left = room(gpu.board, (kept - set(change.deletes)) | {place})
    rank = (1, len(destroys), not gpu.is_carved, -left, 0, gpu.view.index, place.start)
    yield _Choice(rank, _place(want, gpu, place.start), gpu, destroys)


def _idle_slices(want: Want, gpu: GpuSpace) -> Iterator[_Choice]:
    for key, seen in gpu.slices.items():
        if seen.profile == want.profile and seen.ready and gpu.is_idle(key):
            rank = (0, 0, 0, 0, room(gpu.board, gpu.layout()), gpu.view.index, seen.start)
            yield _Choice(rank, _place(want, gpu, seen.start, key), gpu)


def _place(want: Want, gpu: GpuSpace, start: int, slice_id: str = "") -> SlicePlace:
    return SlicePlace(
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


