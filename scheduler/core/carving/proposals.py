"""Partitions before they are asked for: warm slices to carve, unwanted ones to delete, modes to
change. Proposals only; pure. Nothing that is held is ever touched.

Each proposal weighs seconds that the next requests would wait against seconds that it costs. A
slice that must be made when it is asked for keeps its job waiting CARVE_SECONDS; one in the way
costs a pass for deleting it and then as much, MERGE_SECONDS; to act at all costs ACT_SECONDS of the
node's agent. These are the product's own figures: an agent makes a slice in a few seconds, a
planning pass runs at least every 5.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agents.contract.boards import Board
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from agents.contract.phrase import Phrase
from scheduler.core.carving.demand_forecast import DemandForecast, forecast_demand
from scheduler.core.devices.gpu_changes import (
    may_change_mode,
    mode_change_seconds,
    untouchable_reason,
)
from scheduler.core.devices.options import gpu_board
from scheduler.core.geometry.profile_demand import PlacementValues
from scheduler.core.model.decisions import Carve, Merge
from scheduler.core.model.snapshot import ClusterSnapshot, GpuView, NodeView, SliceView

CARVE_SECONDS = 10.0
MERGE_SECONDS = 20.0
ACT_SECONDS = 2.0
# An idle slice goes only where its profile is worth so many times less than what one is made for:
# what is asked for goes up and down with the queue, and nothing is made and deleted along with it.
KEEP_FACTOR = 2.0
# Proposals of each kind in one pass: more can follow once these are done.
MAX_PROPOSALS = 16
ONE_GOES = "%(n)s idle slice makes room on GPU %(gpu)s that %(share)s of the requests want"
MANY_GO = "%(n)s idle slices make room on GPU %(gpu)s that %(share)s of the requests want"


@dataclass(frozen=True, slots=True)
class ModeChange:
    """Bring this empty GPU into another mode."""

    gpu: str
    mode: GpuMode
    sentence: str


@dataclass(frozen=True, slots=True)
class Proposals:
    """Each carries the sentence that says why."""

    carves: tuple[Carve, ...] = ()
    merges: tuple[Merge, ...] = ()
    modes: tuple[ModeChange, ...] = ()

    def gpu_sentences(self) -> tuple[tuple[str, str], ...]:
        """(GPU, sentence) of each, as a console shows them."""
        every: tuple[Merge | ModeChange | Carve, ...] = (*self.merges, *self.modes, *self.carves)
        return tuple((one.gpu, one.sentence) for one in every)


def propose_changes(
    snapshot: ClusterSnapshot, busy_gpus: frozenset[str] = frozenset()
) -> Proposals:
    """What to prepare now. A GPU gets one kind of proposal: a merge, else a mode, else carves;
    those of `busy` (by id) get none, but what is ready on them counts.
    With neither a mix nor a queue nothing is known of the future, so nothing is proposed."""
    found = Proposals()
    boards = {b.key: b for n in snapshot.nodes for g in n.gpus if (b := gpu_board(g)).supports_mig}
    for key in sorted(boards):
        likely = forecast_demand(boards[key], snapshot)
        if likely.total:
            found = _joined(found, _Board(snapshot, boards[key], likely, busy_gpus).proposals())
    return Proposals(
        found.carves[:MAX_PROPOSALS], found.merges[:MAX_PROPOSALS], found.modes[:MAX_PROPOSALS]
    )


def _joined(one: Proposals, two: Proposals) -> Proposals:
    return Proposals(one.carves + two.carves, one.merges + two.merges, one.modes + two.modes)


class _Board:
    """The GPUs of one kind that may be touched now, in order of node and index."""

    def __init__(
        self, snapshot: ClusterSnapshot, board: Board, likely: DemandForecast, busy: frozenset[str]
    ) -> None:
        self.board, self.likely, self.now = board, likely, snapshot.now
        self.table, self.falls = layout_table(board), PlacementValues(snapshot.mix)
        mine = [(n, g) for n in snapshot.nodes for g in n.gpus if gpu_board(g).key == board.key]
        self.all = sorted(mine, key=lambda at: (at[0].name, at[0].id, at[1].index, at[1].id))
        may = ((n, g) for n, g in self.all if g.id not in busy)
        self.free = [(n, g) for n, g in may if untouchable_reason(n, g, self.now) is None]

    def proposals(self) -> Proposals:
        merges = list(self._merges())
        busy = {merge.gpu for merge in merges}
        modes = self._modes()
        busy |= {change.gpu for change in modes}
        carves = self._carves(busy)
        return Proposals(tuple(carves), tuple(merges), tuple(modes))

    def _merges(self) -> Iterator[Merge]:
        """Idle slices that nobody wants where something that is wanted would fit instead."""
        for _, gpu in self.free:
            if not _is_carved(gpu):
                continue
            goes = [
                s for s in gpu.slices if not s.allocated and s.ready and self._unwanted(s.profile)
            ]
            stays = [s for s in gpu.slices if s not in goes]
            gained = self._asked_beside(_layout(stays)) - self._asked_beside(_layout(gpu.slices))
            lost = sum(self.likely.share(s.profile) for s in goes) * CARVE_SECONDS
            if goes and gained * MERGE_SECONDS > lost + ACT_SECONDS:
                ids = tuple(sorted(s.id for s in goes))
                said = ONE_GOES if len(ids) == 1 else MANY_GO
                share = f"{gained:.0%}"
                sentence = Phrase(said, n=len(ids), gpu=gpu.index, share=share)
                yield Merge(gpu.id, ids, "", sentence)

    def _unwanted(self, profile: str) -> bool:
        """So few of the next requests will want one that it is not worth keeping in the way."""
        return (
            self.likely.chance_of_more_than(0, profile) * CARVE_SECONDS * KEEP_FACTOR < ACT_SECONDS
        )

    def _asked_beside(self, layout: tuple[Placement, ...]) -> float:
        """The share of requests that could start on a GPU with this layout."""
        free = self.table.free_beside(layout).by_profile
        return sum(self.likely.share(name) for name in sorted(free) if free[name])

    def _modes(self) -> list[ModeChange]:
        """At most one GPU a pass, the last empty one: earlier ones are filled first."""
        have = self._room_by_mode()
        for node, gpu in reversed(self.free):
            if not may_change_mode(node, gpu, self.now) or gpu.mode not in have:
                continue
            old = self.likely.chance_of_more_in_mode(
                have[gpu.mode] - self._worth(gpu.mode), gpu.mode
            )
            for mode in (GpuMode.WHOLE, GpuMode.MIG, GpuMode.MPS):
                gain = self.likely.chance_of_more_in_mode(have[mode], mode)
                saved = (gain - old) * mode_change_seconds(self.board)
                if mode is not gpu.mode and self._can_be(node, mode) and saved > ACT_SECONDS:
                    sentence = Phrase(
                        "GPU %(gpu)s is empty; with %(gain)s chance the next requests need "
                        "one more in mode %(mode)s, with %(old)s in mode %(now)s",
                        gpu=gpu.index,
                        gain=f"{gain:.0%}",
                        mode=mode,
                        old=f"{old:.0%}",
                        now=gpu.mode,
                    )
                    return [ModeChange(gpu.id, mode, sentence)]
        return []

    def _room_by_mode(self) -> dict[GpuMode, int]:
        """How many requests of each mode find room now."""
        have = {GpuMode.WHOLE: 0, GpuMode.MIG: 0, GpuMode.MPS: 0}
        for node, gpu in self.all:
            if not (node.available and gpu.healthy) or gpu.mode not in have:
                continue
            if not gpu.slices:
                have[gpu.mode] += self._worth(gpu.mode)
            elif _is_carved(gpu):
                free = self.board.memory_slices - sum(s.size for s in gpu.slices if s.allocated)
                have[GpuMode.MIG] += int(free / max(1.0, self.likely.mean_slices))
        return have

    def _worth(self, mode: GpuMode) -> int:
        """How many requests an empty GPU serves in this mode."""
        if mode is not GpuMode.MIG:
            return 1
        return max(1, int(self.board.memory_slices / max(1.0, self.likely.mean_slices)))

    @staticmethod
    def _can_be(node: NodeView, mode: GpuMode) -> bool:
        return mode is not GpuMode.MPS or node.share_clients > 0

    def _carves(self, busy: set[str]) -> list[Carve]:
        """Warm slices, the most wanted profile first, each where V falls least."""
        open_to = {
            g.id: (g, _layout(g.slices)) for _, g in self.free if g.id not in busy and _is_carved(g)
        }
        ready = Counter(
            s.profile for _, g in self.all for s in g.slices if s.ready and not s.allocated
        )
        warm = {name: ready[name] for name in self.likely.profiles}
        carves: list[Carve] = []
        wanted = sorted(warm, key=lambda name: (-self.likely.share(name), name))
        for name in wanted:
            while len(carves) < MAX_PROPOSALS and (found := self._carve(name, warm[name], open_to)):
                carve, place = found
                gpu, layout = open_to[carve.gpu]
                open_to[carve.gpu] = (gpu, (*layout, place))
                warm[name] += 1
                carves.append(carve)
        return carves

    def _carve(
        self, name: str, warm: int, open_to: dict[str, tuple[GpuView, tuple[Placement, ...]]]
    ) -> tuple[Carve, Placement] | None:
        chance = self.likely.chance_of_more_than(warm, name)
        options: list[tuple[float, float, int, GpuView, Placement]] = []
        for gpu, layout in open_to.values():
            held = tuple(p for p in layout if p in _held(gpu))
            before = self._asked_beside(layout)
            for place in self.table.free_beside(layout).by_profile.get(name, ()):
                blocked = before - self._asked_beside((*layout, place))
                cost = (1 - chance) * max(0.0, blocked) * MERGE_SECONDS + ACT_SECONDS
                fall = self.falls.loss(self.board, held, place)
                options.append((cost, fall, len(options), gpu, place))
        if not options:
            return None
        cost, _, _, gpu, place = min(options, key=lambda option: option[:3])
        saved = chance * CARVE_SECONDS
        if saved <= cost:
            return None
        sentence = Phrase(
            "With %(chance)s chance the next requests want one more %(profile)s than is ready; "
            "made now it saves %(saved)s s of waiting for %(cost)s s",
            chance=f"{chance:.0%}",
            profile=name,
            saved=f"{saved:.0f}",
            cost=f"{cost:.0f}",
        )
        return Carve(gpu.id, name, place.start, place.size, sentence), place


def _is_carved(gpu: GpuView) -> bool:
    """In MIG mode, and nothing else on it."""
    return gpu.mode is GpuMode.MIG and all(s.kind is SliceKind.MIG for s in gpu.slices)


def _layout(slices: Iterable[SliceView]) -> tuple[Placement, ...]:
    return tuple(Placement(s.start, s.size, s.profile) for s in slices)


def _held(gpu: GpuView) -> frozenset[Placement]:
    return frozenset(_layout(s for s in gpu.slices if s.allocated))
