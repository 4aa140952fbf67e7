"""The packing engine over a ledger: ranks the nodes for a gang.

The engine knows GPUs by their state, not by their name, so it is quick on thousands of nodes.
`search` then chooses the devices on the best node and reserves them on the ledger.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property

import numpy as np

from agents.contract.documents import SliceKind
from agents.contract.egress import EgressPolicy
from agents.contract.launcher_names import LauncherName
from agents.contract.layouts import layout_table
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.devices.options import DeviceOption, device_options
from scheduler.core.geometry.placement_value import profile_weights
from scheduler.core.model.snapshot import (
    SINGLE_NODE,
    Demand,
    DeviceRequest,
    Topology,
    WaitingJob,
)
from scheduler.core.packing.engine import PackingEngine
from scheduler.core.packing.kernels import Bools
from scheduler.core.packing.kinds import KindMix as KindMix
from scheduler.core.packing.kinds import NodeRoom, RequestKind
from scheduler.core.packing.tables import ClusterExtent, hole_values_of_mix
from scheduler.core.packing.weights import score_weights
from scheduler.core.placement.gpu_states import DeviceShape, SliceGeometry, state_of
from scheduler.core.placement.ledger import GpuSpace, Ledger, NodeSpace
from scheduler.core.placement.node_eligibility import eligibility_key, is_eligible

# Assumed beside every mix: one whole GPU with the usual CPU and memory.
PRIOR = Demand(DeviceRequest(gpus=1), cpu_milli=8_000, memory_mib=65_536, count=1)
# A request with many device options counts for the cheapest of them, up to this number.
MAX_OPTIONS = 4


class Fleet:
    """The engine of one ledger. Every query first takes in the changes of the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._nodes = sorted(ledger.nodes.values(), key=lambda n: (n.view.name, n.view.id))
        self._number = {node.view.id: n for n, node in enumerate(self._nodes)}
        self._boards = {g.board.key: g.board for node in self._nodes for g in node.gpus}
        self._model = {key: m for m, key in enumerate(sorted(self._boards))}
        self._masks: dict[Hashable, Bools | None] = {}
        self._has_taints = any(node.view.taints for node in self._nodes)
        of_nodes = {node.view.launchers for node in self._nodes}
        # Those that every node has.
        self._launchers = frozenset(LauncherName).intersection(*of_nodes)
        self._disk = np.array([node.disk_free_mib for node in self._nodes], np.int64)
        self._demand_mix = ledger.snapshot.mix
        self._engine = self._make_engine([self._room(node) for node in self._nodes])
        self._most_gpus = max((len(node.gpus) for node in self._nodes), default=0)
        self.has_links = any(node.view.links for node in self._nodes)
        self._shared: dict[str, dict[tuple[int, int], GpuSpace]] = {}
        for n, node in enumerate(self._nodes):
            self._note_shares(n, node.open_gpus)
        ledger.changes.clear()

    def begin_pass(self) -> None:
        """The ledger follows another snapshot: become equal to a new index."""
        self._follow()
        if self._demand_mix != self._ledger.snapshot.mix:
            rooms = [self._engine.node_room(number) for number in range(len(self._nodes))]
            self._demand_mix = self._ledger.snapshot.mix
            self._engine = self._make_engine(rooms)
        else:
            self._engine.update_scarcity()

    def nodes_for(
        self,
        job: WaitingJob,
        option: DeviceOption,
        replicas: int,
        *,
        merging: bool,
        among: Bools | None = None,
    ) -> Iterator[NodeSpace]:
        """Nodes, of those in `among`, that may have room for this many replicas, best first.

        Several slices may still not fit together on such a node."""
        self._follow()
        mask = self._may_run(job, replicas)
        if among is not None:
            mask = among if mask is None else mask & among
        beside = self._beside(job, option, mask)
        yield from beside
        number = self._engine.kind_number(self._kind(job, option, replicas, merging))
        best = self._engine.best_choice(number, mask)
        if best is None:
            return
        yield self._nodes[best.node]
        ranked = (n for n in self._engine.ranked_nodes(number) if mask is None or mask[n])
        for n in ranked:
            node = self._nodes[n]
            if n != best.node and (replicas == 1 or _could(node, job, option, replicas)):
                yield node

    def networks(self, gang: WaitingJob) -> list[Bools]:
        """The nodes of each network by name; unless the topology is `any`, first those of each leaf
        switch of a network that has several, smaller ones first. Those with one kind of RDMA, if
        the gang has to use it.

        A node that needs addresses to join others is alone while too few of them are free."""
        any_place = gang.topology is Topology.ANY
        found = self._fabrics if any_place else [*self._leaves, *self._fabrics]
        if gang.needs_rdma:
            found = [among & alike for among in found for alike in self._rdma]
        overlays = self._overlays
        if gang.replicas <= self._ledger.snapshot.largest_networked_gang or not overlays.any():
            return found
        alone = [np.arange(len(overlays)) == n for n in np.flatnonzero(overlays)]
        return [among & ~overlays for among in found] + alone

    @cached_property
    def _overlays(self) -> Bools:
        return np.array([bool(node.view.overlay) for node in self._nodes], bool)

    @cached_property
    def _rdma(self) -> list[Bools]:
        layers = np.array([node.view.rdma for node in self._nodes])
        return [layers == layer for layer in sorted(set(layers)) if layer]

    @cached_property
    def _fabrics(self) -> list[Bools]:
        names = np.array([node.view.fabric for node in self._nodes])
        return [names == fabric for fabric in sorted(set(names))]

    @cached_property
    def _leaves(self) -> list[Bools]:
        switches = np.array([node.view.leaf for node in self._nodes])
        found = []
        for inside in self._fabrics:
            named = sorted(set(switches[inside]))
            if len(named) > 1:
                found += [inside & (switches == leaf) for leaf in named if leaf]
        return sorted(found, key=lambda mask: int(mask.sum()))

    def has_too_few_nodes(
        self, job: WaitingJob, option: DeviceOption, among: Bools, *, merging: bool
    ) -> bool:
        """Whether the nodes with room for one replica are too few for a gang of whole GPUs."""
        if option.kind is not SliceKind.GPU:
            return False
        self._follow()
        mask = self._may_run(job, 1)
        inside = among if mask is None else among & mask
        fitting = self._engine.fitting_node_count(
            self._engine.kind_number(self._kind(job, option, 1, merging)), inside
        )
        return fitting * (self._most_gpus // option.count) < job.replicas

    def most_replicas(self, job: WaitingJob, option: DeviceOption, max_count: int) -> int:
        """How many replicas free devices could hold by their number, up to `max_count`: on one node
        for a gang that has to be on one, else in one network. Their places may allow fewer."""
        fitting = self.nodes_for(job, option, 1, merging=False)
        if job.topology in SINGLE_NODE:
            return max((_room(node, job, option, max_count) for node in fitting), default=0)
        found: Counter[str] = Counter()
        for node in fitting:
            found[node.view.fabric] += _room(node, job, option, max_count)
            if found[node.view.fabric] >= max_count:
                return max_count
        return max(found.values(), default=0)

    def without(self, among: Bools, nodes: Iterable[str]) -> Bools:
        left = among.copy()
        left[[self._number[key] for key in nodes]] = False
        return left

    def _beside(self, job: WaitingJob, option: DeviceOption, mask: Bools | None) -> list[NodeSpace]:
        """For an MPS share: nodes where a GPU with shares of the project has room for one more, the
        fullest first."""
        if option.kind is not SliceKind.MPS:
            return []
        size = (option.threads, option.memory_mib, job.processes)
        mine = self._shared.get(job.project, {})
        least: dict[int, int] = {}
        for key, gpu in list(mine.items()):
            node = self._nodes[key[0]]
            left = gpu.share_room(job.project, node.view.share_clients)
            if left is None or left.threads < 1 or not gpu.is_shared:
                del mine[key]
            elif self._may_join(node, key[0], gpu, option, mask) and left.max_shares(*size):
                least[key[0]] = min(least.get(key[0], 100), left.threads)
        return [self._nodes[n] for n in sorted(least, key=lambda n: (least[n], n))]

    def _may_join(
        self, node: NodeSpace, number: int, gpu: GpuSpace, option: DeviceOption, mask: Bools | None
    ) -> bool:
        return (
            gpu.board.key == option.board
            and gpu.view.healthy
            and node.view.available
            and (mask is None or bool(mask[number]))
        )

    def _follow(self) -> None:
        """Pass the changes of the ledger on to the engine."""
        changed: dict[str, set[str]] = {}
        for key, gpu in self._ledger.changes:
            changed.setdefault(key, set()).add(gpu)
        self._ledger.changes.clear()
        for key, gpus in changed.items():
            node = self._ledger.nodes[key]
            changed_gpus = [(i, g) for i, g in enumerate(node.gpus) if g.view.id in gpus]
            states = {i: state_of(gpu) for i, gpu in changed_gpus}
            self._note_shares(self._number[key], [gpu for _, gpu in changed_gpus])
            free = max(0, node.cpu_free_milli), max(0, node.memory_free_mib)
            self._engine.update(self._number[key], *free, states)
            self._disk[self._number[key]] = node.disk_free_mib

    def _note_shares(self, number: int, gpus: list[GpuSpace]) -> None:
        """Remember which project has shares on which GPU. `_beside` drops entries that are gone."""
        for gpu in gpus:
            if gpu.is_shared:
                project = next(iter(gpu.slices.values())).project
                self._shared.setdefault(project, {})[number, gpu.view.index] = gpu

    def _may_run(self, job: WaitingJob, replicas: int) -> Bools | None:
        """Nodes that the job may run on, with the disk for this many replicas; None means all. Few
        jobs request disk, so the engine does not score it."""
        mask = self._mask(job)
        if not job.disk_mib:
            return mask
        enough = self._disk >= job.disk_mib * replicas
        return enough if mask is None else mask & enough

    def _mask(self, job: WaitingJob) -> Bools | None:
        """Nodes for which the job is eligible; None means all."""
        places = job.needs or job.only_nodes or job.volume_access
        asks = bool(places or job.needs_rdma or job.image_needs or job.git_host)
        asks = asks or job.egress is not EgressPolicy.ALL
        if not asks and not self._has_taints and job.launcher in self._launchers:
            return None
        key = eligibility_key(job)
        if key not in self._masks:
            usable = [n.view.available and is_eligible(n.view, job) for n in self._nodes]
            self._masks[key] = np.array(usable, bool)
        return self._masks[key]

    def _kind(
        self, job: WaitingJob, option: DeviceOption, replicas: int, merging: bool
    ) -> RequestKind:
        """The whole GPUs of a gang count together, but only the first of its slices does."""
        whole = option.kind is SliceKind.GPU
        gpus = option.count * replicas if whole else 1
        return RequestKind(
            cpu_milli=job.cpu_milli * replicas,
            memory_mib=job.memory_mib * replicas,
            gpus=gpus,
            amount=gpus * option.units / UNITS_PER_GPU,
            shape=_shape(option, merging),
            models=None,
        )

    def _make_engine(self, rooms: list[NodeRoom]) -> PackingEngine:
        """For the present mix of requests. `rooms`: of all nodes, in their order."""
        mix = self._mix()
        cut = SliceGeometry(self._boards, _profiles(mix), hole_values_of_mix(mix))
        weights = score_weights(self._demand_mix.departures_per_start)
        engine = PackingEngine(rooms, self._extent(), cut, mix, weights)
        for n, node in enumerate(self._nodes):
            if not node.view.available:
                engine.set_usable(n, False)
        engine.update_scarcity()
        return engine

    def _mix(self) -> KindMix:
        found: dict[RequestKind, float] = {}
        boards = list(self._boards.values())
        for demand in (*self._demand_mix.demands, PRIOR):
            options = device_options(demand.device, boards)[:MAX_OPTIONS]
            for option in options:
                kind = RequestKind(
                    demand.cpu_milli,
                    demand.memory_mib,
                    option.count,
                    option.count * option.units / UNITS_PER_GPU,
                    _shape(option, False),
                    frozenset({self._model[option.board]}),
                )
                found[kind] = found.get(kind, 0.0) + demand.count / len(options)
        return found

    def _extent(self) -> ClusterExtent:
        views = [node.view for node in self._nodes]
        count = Counter(g.board.key for node in self._nodes for g in node.gpus)
        return ClusterExtent(
            cpu_milli=max((v.cpu_total_milli for v in views), default=1),
            memory_mib=max((v.memory_total_mib for v in views), default=1),
            max_gpus_per_node=max((len(v.gpus) for v in views), default=1),
            gpus_by_model=tuple(count[key] for key in sorted(count)) or (0,),
        )

    def _room(self, node: NodeSpace) -> NodeRoom:
        boards = Counter(g.board.key for g in node.gpus)
        model = self._model[min(boards, key=lambda k: (-boards[k], k))] if boards else 0
        states = tuple(state_of(gpu) for gpu in node.gpus)
        free = max(0, node.cpu_free_milli), max(0, node.memory_free_mib)
        return NodeRoom(model, *free, states)


def fleet_of(ledger: Ledger) -> Fleet:
    """The index of the ledger, made when it is first needed."""
    fleet = ledger.index
    if not isinstance(fleet, Fleet):
        fleet = ledger.index = Fleet(ledger)
    return fleet


def _could(node: NodeSpace, job: WaitingJob, option: DeviceOption, replicas: int) -> bool:
    """Whether this many slices could fit on the node if their places did not matter."""
    return option.kind is SliceKind.GPU or _slice_room(node, job, option) >= replicas


def _room(node: NodeSpace, job: WaitingJob, option: DeviceOption, most: int) -> int:
    """How many replicas, up to `most`, could fit on the node if their places did not matter."""
    if option.kind is SliceKind.GPU:
        empty = (gpu for gpu in node.open_gpus if gpu.board.key == option.board and gpu.is_empty)
        devices = sum(1 for _ in empty) // option.count
    else:
        devices = _slice_room(node, job, option)
    return next((n for n in range(min(devices, most), 0, -1) if node.can_host(job, n)), 0)


def _slice_room(node: NodeSpace, job: WaitingJob, option: DeviceOption) -> int:
    """How many slices or shares could fit on the node if their places did not matter."""
    alike = [gpu for gpu in node.open_gpus if gpu.board.key == option.board]
    if option.kind is SliceKind.MPS:
        clients = node.view.share_clients
        lefts = (gpu.share_room(job.project, clients, without_idle=True) for gpu in alike)
        size = (option.threads, option.memory_mib, job.processes)
        return sum(left.max_shares(*size) for left in lefts if left)
    carved = [gpu for gpu in alike if gpu.may_carve(without_idle=True)]
    most = (
        layout_table(gpu.board).free_beside(gpu.layout(without_idle=True)).max_count
        for gpu in carved
    )
    return sum(one[option.profile] for one in most)


def _shape(option: DeviceOption, merging: bool) -> DeviceShape:
    thousandths = -(-option.units * 1_000 // UNITS_PER_GPU) if option.kind is SliceKind.MPS else 0
    return DeviceShape(option.board, option.kind, option.profile, thousandths, merging)


def _profiles(mix: KindMix) -> tuple[tuple[str, float], ...]:
    """How often the mix requests each profile."""
    found: dict[str, float] = {}
    for kind, count in mix.items():
        if isinstance(kind.shape, DeviceShape) and kind.shape.profile:
            found[kind.shape.profile] = found.get(kind.shape.profile, 0.0) + count
    return profile_weights(found)
