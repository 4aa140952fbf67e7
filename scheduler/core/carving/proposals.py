"""Proposes partitions ahead of demand: slices to carve, idle ones to delete, modes to change.

A proposal never touches an allocated slice. Each weighs the seconds that the next requests would
wait against the seconds that it costs. A slice made on request delays its job by CARVE_SECONDS. An
idle slice in the way costs a pass to delete it as well, MERGE_SECONDS together. Any change costs
ACT_SECONDS of the node's agent. These are Tessera's own figures: an agent makes a slice in a few
seconds, and a planning pass runs at least every 5 seconds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agents.contract.boards import Board
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from agents.contract.message import Message
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
# To be deleted, an idle slice must be worth this many times less than it takes to carve one: demand
# varies with the queue, and slices must not be made and deleted along with it.
KEEP_FACTOR = 2.0
# Proposals of each kind in one pass. More can follow once these are done.
MAX_PROPOSALS = 16
ONE_SLICE = (
    "Deleting %(n)s idle slice on GPU %(gpu)s makes room for %(share)s of the expected requests"
)
SEVERAL_SLICES = (
    "Deleting %(n)s idle slices on GPU %(gpu)s makes room for %(share)s of the expected requests"
)


@dataclass(frozen=True, slots=True)
class ModeChange:
    """Change the mode of this empty GPU."""

    gpu: str
    mode: GpuMode
    message: Message


@dataclass(frozen=True, slots=True)
class Proposals:
    """Each proposal has a message that says why."""

    carves: tuple[Carve, ...] = ()
    merges: tuple[Merge, ...] = ()
    modes: tuple[ModeChange, ...] = ()

    def gpu_sentences(self) -> tuple[tuple[str, str], ...]:
        """(GPU, English sentence) of each proposal, for the console."""
        every: tuple[Merge | ModeChange | Carve, ...] = (*self.merges, *self.modes, *self.carves)
        return tuple((proposal.gpu, proposal.message.text) for proposal in every)


def propose_changes(
    snapshot: ClusterSnapshot, busy_gpus: frozenset[str] = frozenset()
) -> Proposals:
    """What to prepare now.

    A GPU gets one kind of proposal: a merge, else a mode, else carves. The GPUs `busy_gpus` (ids)
    get none, but their ready slices count. Without a mix and a queue, nothing is known of future
    demand, so nothing is proposed."""
    proposals = Proposals()
    boards = {b.key: b for n in snapshot.nodes for g in n.gpus if (b := gpu_board(g)).supports_mig}
    for key in sorted(boards):
        forecast = forecast_demand(boards[key], snapshot)
        if forecast.total:
            proposals = _combined(
                proposals, _Board(snapshot, boards[key], forecast, busy_gpus).proposals()
            )
    return Proposals(
        proposals.carves[:MAX_PROPOSALS],
        proposals.merges[:MAX_PROPOSALS],
        proposals.modes[:MAX_PROPOSALS],
    )


def _combined(first: Proposals, second: Proposals) -> Proposals:
    return Proposals(
        first.carves + second.carves, first.merges + second.merges, first.modes + second.modes
    )


class _Board:
    """The GPUs of one board, and those of them that may be changed now, by node and index."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        board: Board,
        forecast: DemandForecast,
        busy: frozenset[str],
    ) -> None:
        self.board, self.forecast, self.now = board, forecast, snapshot.now
        self.table, self.values = layout_table(board), PlacementValues(snapshot.mix)
        nodes_and_gpus = [
            (n, g) for n in snapshot.nodes for g in n.gpus if gpu_board(g).key == board.key
        ]
        self.gpus = sorted(
            nodes_and_gpus, key=lambda at: (at[0].name, at[0].id, at[1].index, at[1].id)
        )
        changeable = ((n, g) for n, g in self.gpus if g.id not in busy)
        self.changeable = [
            (n, g) for n, g in changeable if untouchable_reason(n, g, self.now) is None
        ]

    def proposals(self) -> Proposals:
        merges = list(self._merges())
        busy = {merge.gpu for merge in merges}
        modes = self._modes()
        busy |= {change.gpu for change in modes}
        carves = self._carves(busy)
        return Proposals(tuple(carves), tuple(merges), tuple(modes))

    def _merges(self) -> Iterator[Merge]:
        """Unwanted idle slices in the place of expected ones."""
        for _, gpu in self.changeable:
            if not _is_carved(gpu):
                continue
            deleted = [
                s
                for s in gpu.slices
                if not s.allocated and s.ready and self._is_unwanted(s.profile)
            ]
            remaining = [s for s in gpu.slices if s not in deleted]
            gained = self._startable_share(_layout(remaining)) - self._startable_share(
                _layout(gpu.slices)
            )
            lost = sum(self.forecast.share(s.profile) for s in deleted) * CARVE_SECONDS
            if deleted and gained * MERGE_SECONDS > lost + ACT_SECONDS:
                ids = tuple(sorted(s.id for s in deleted))
                template = ONE_SLICE if len(ids) == 1 else SEVERAL_SLICES
                share = f"{gained:.0%}"
                message = Message(template, n=len(ids), gpu=gpu.index, share=share)
                yield Merge(gpu.id, ids, "", message)

    def _is_unwanted(self, profile: str) -> bool:
        """Whether it is too unlikely to be requested to keep it in the way of others."""
        return (
            self.forecast.chance_of_more_than(0, profile) * CARVE_SECONDS * KEEP_FACTOR
            < ACT_SECONDS
        )

    def _startable_share(self, layout: tuple[Placement, ...]) -> float:
        """The share of expected requests that could start on a GPU with this layout."""
        free = self.table.free_beside(layout).by_profile
        return sum(self.forecast.share(name) for name in sorted(free) if free[name])

    def _modes(self) -> list[ModeChange]:
        """At most one GPU per pass, the last empty one: earlier ones are filled first."""
        room_for = self._room_by_mode()
        for node, gpu in reversed(self.changeable):
            if not may_change_mode(node, gpu, self.now) or gpu.mode not in room_for:
                continue
            present_need = self.forecast.chance_of_more_in_mode(
                room_for[gpu.mode] - self._requests_served(gpu.mode), gpu.mode
            )
            for mode in (GpuMode.WHOLE, GpuMode.MIG, GpuMode.MPS):
                need = self.forecast.chance_of_more_in_mode(room_for[mode], mode)
                saved = (need - present_need) * mode_change_seconds(self.board)
                if mode is not gpu.mode and self._can_be(node, mode) and saved > ACT_SECONDS:
                    message = Message(
                        "GPU %(gpu)s is empty. The chance that the next requests need one more GPU "
                        "in mode %(mode)s is %(gain)s; in mode %(now)s it is %(old)s",
                        gpu=gpu.index,
                        gain=f"{need:.0%}",
                        mode=mode,
                        old=f"{present_need:.0%}",
                        now=gpu.mode,
                    )
                    return [ModeChange(gpu.id, mode, message)]
        return []

    def _room_by_mode(self) -> dict[GpuMode, int]:
        """How many requests of each mode have room now."""
        room_for = {GpuMode.WHOLE: 0, GpuMode.MIG: 0, GpuMode.MPS: 0}
        for node, gpu in self.gpus:
            if not (node.available and gpu.healthy) or gpu.mode not in room_for:
                continue
            if not gpu.slices:
                room_for[gpu.mode] += self._requests_served(gpu.mode)
            elif _is_carved(gpu):
                free = self.board.memory_slices - sum(s.size for s in gpu.slices if s.allocated)
                room_for[GpuMode.MIG] += int(free / max(1.0, self.forecast.mean_slices))
        return room_for

    def _requests_served(self, mode: GpuMode) -> int:
        """How many requests an empty GPU serves in this mode."""
        if mode is not GpuMode.MIG:
            return 1
        return max(1, int(self.board.memory_slices / max(1.0, self.forecast.mean_slices)))

    @staticmethod
    def _can_be(node: NodeView, mode: GpuMode) -> bool:
        return mode is not GpuMode.MPS or node.share_clients > 0

    def _carves(self, busy: set[str]) -> list[Carve]:
        """Warm slices, the most requested profile first, each where V falls least."""
        carvable = {
            g.id: (g, _layout(g.slices))
            for _, g in self.changeable
            if g.id not in busy and _is_carved(g)
        }
        ready = Counter(
            s.profile for _, g in self.gpus for s in g.slices if s.ready and not s.allocated
        )
        warm_counts = {name: ready[name] for name in self.forecast.profiles}
        carves: list[Carve] = []
        by_share = sorted(warm_counts, key=lambda name: (-self.forecast.share(name), name))
        for name in by_share:
            while len(carves) < MAX_PROPOSALS and (
                found := self._carve(name, warm_counts[name], carvable)
            ):
                carve, place = found
                gpu, layout = carvable[carve.gpu]
                carvable[carve.gpu] = (gpu, (*layout, place))
                warm_counts[name] += 1
                carves.append(carve)
        return carves

    def _carve(
        self,
        name: str,
        warm_count: int,
        carvable: dict[str, tuple[GpuView, tuple[Placement, ...]]],
    ) -> tuple[Carve, Placement] | None:
        chance = self.forecast.chance_of_more_than(warm_count, name)
        options: list[tuple[float, float, int, GpuView, Placement]] = []
        for gpu, layout in carvable.values():
            allocated = tuple(p for p in layout if p in _allocated(gpu))
            before = self._startable_share(layout)
            for place in self.table.free_beside(layout).by_profile.get(name, ()):
                blocked = before - self._startable_share((*layout, place))
                cost = (1 - chance) * max(0.0, blocked) * MERGE_SECONDS + ACT_SECONDS
                loss = self.values.loss(self.board, allocated, place)
                options.append((cost, loss, len(options), gpu, place))
        if not options:
            return None
        cost, _, _, gpu, place = min(options, key=lambda option: option[:3])
        saved = chance * CARVE_SECONDS
        if saved <= cost:
            return None
        message = Message(
            "The chance that the next requests need one more %(profile)s than is ready "
            "is %(chance)s; making it now saves %(saved)s s of waiting and costs %(cost)s s",
            chance=f"{chance:.0%}",
            profile=name,
            saved=f"{saved:.0f}",
            cost=f"{cost:.0f}",
        )
        return Carve(gpu.id, name, place.start, place.size, message), place


def _is_carved(gpu: GpuView) -> bool:
    """In MIG mode, and nothing else on it."""
    return gpu.mode is GpuMode.MIG and all(s.kind is SliceKind.MIG for s in gpu.slices)


def _layout(slices: Iterable[SliceView]) -> tuple[Placement, ...]:
    return tuple(Placement(s.start, s.size, s.profile) for s in slices)


def _allocated(gpu: GpuView) -> frozenset[Placement]:
    return frozenset(_layout(s for s in gpu.slices if s.allocated))
