"""States of GPUs for the packing engine, and how a placement changes them.

The value of a GPU is the share of an empty one that can still be used: by `geometry` if it is
carved into slices, by `packing.holes` if it is shared, 0 if it is allocated whole.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from agents.contract.boards import Board
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from scheduler.core.geometry.placement_value import ProfileWeights as ProfileWeights
from scheduler.core.geometry.placement_value import layout_values, placement_loss
from scheduler.core.model.snapshot import SliceView
from scheduler.core.packing.holes import GRID, HoleValues
from scheduler.core.packing.kinds import StateFacts, Transition
from scheduler.core.placement.ledger import GpuSpace

# Preferences in GPUs: a ready slice starts at once, while other places wait until a slice is made,
# or until idle ones are deleted.
READY_BONUS = 0.05
# Without a known mix, a ready slice is always better than a new one.
READY_BONUS_UNKNOWN_MIX = 1.0
MERGE_COST = 0.10
# Keeping the mode of an empty GPU, which other jobs may need next.
SAME_MODE_BONUS = 0.02


@dataclass(frozen=True, slots=True)
class GpuState:
    """GPUs in equal states are interchangeable for placement."""

    board: str
    mode: GpuMode
    allocated: frozenset[Placement]
    idle: frozenset[tuple[Placement, bool]]
    """(place, ready) of each slice without an allocation."""
    is_whole: bool
    """Allocated whole."""
    share_thousandths: int | None
    """What the MPS shares of one project leave free; None without shares."""
    is_fixed: bool
    """Idle slices must not be deleted."""


OUT_OF_SERVICE = "out of service"


@dataclass(frozen=True, slots=True)
class DeviceShape:
    """What a request needs of one GPU."""

    board: str
    kind: SliceKind
    profile: str
    thousandths: int
    """Size of an MPS share."""
    merging: bool
    """Whether idle slices may be deleted."""


def state_of(gpu: GpuSpace) -> Hashable:
    if not gpu.view.healthy:
        return OUT_OF_SERVICE
    allocated, is_whole, is_shared, threads, memory = [], False, False, 100, gpu.view.memory_mib
    idle = [(_place(view), False) for view in gpu.deleted_slices.values()]
    for key, view in gpu.slices.items():
        if gpu.is_idle(key):
            idle.append((_place(view), view.ready))
        elif view.kind is SliceKind.MIG:
            allocated.append(_place(view))
        elif view.kind is SliceKind.MPS:
            is_shared, threads, memory = True, threads - view.threads, memory - view.memory_mib
        else:
            is_whole = True
    thousandths_left = (
        min(threads * 10, memory * 1_000 // max(1, gpu.view.memory_mib)) if is_shared else None
    )
    return GpuState(
        gpu.board.key,
        gpu.view.mode,
        frozenset(allocated),
        frozenset(idle),
        is_whole,
        thousandths_left,
        gpu.view.pinned,
    )


def _place(view: SliceView) -> Placement:
    return Placement(view.start, view.size, view.profile)


class SliceGeometry:
    """The geometry of every kind of slice; see `packing.kinds.Geometry`."""

    def __init__(self, boards: Mapping[str, Board], mix: ProfileWeights, holes: HoleValues) -> None:
        self._boards = boards
        self._mix = mix
        self._holes = holes
        self._ready = READY_BONUS if mix else READY_BONUS_UNKNOWN_MIX

    def facts(self, state: Hashable) -> StateFacts:
        if not isinstance(state, GpuState) or state.is_whole:
            return StateFacts(value=0.0, idle=0.0, started=False)
        if state.share_thousandths is not None:
            worth = float(self._holes[state.share_thousandths * GRID // 1_000])
            return StateFacts(value=worth, idle=state.share_thousandths / 1_000, started=True)
        if not state.allocated:
            return StateFacts(value=1.0, idle=1.0, started=False)
        board = self._boards[state.board]
        idle = 1 - sum(place.size for place in state.allocated) / board.memory_slices
        return StateFacts(_worth(board, state.allocated, self._mix), max(0.0, idle), started=True)

    def transition(self, state: Hashable, shape: Hashable) -> Transition | None:
        if not isinstance(state, GpuState) or not isinstance(shape, DeviceShape):
            return None
        if state.board != shape.board or state.is_whole:
            return None
        match shape.kind:
            case SliceKind.GPU:
                return _whole(state, shape)
            case SliceKind.MPS:
                return _share(state, shape)
            case SliceKind.MIG:
                return self._slice(state, shape)

    def _slice(self, state: GpuState, shape: DeviceShape) -> Transition | None:
        board = self._boards[state.board]
        profile = board.profile(shape.profile)
        if profile is None or state.share_thousandths is not None or not board.supports_mig:
            return None
        if any(not place.profile for place, _ in state.idle):
            # A whole GPU or a share is being given back: a new slice waits until it is gone.
            if not shape.merging or state.is_fixed:
                return None
            state = replace(state, idle=frozenset())
        best: tuple[float, GpuState] | None = None
        occupied = state.allocated | {place for place, _ in state.idle}
        for place in layout_table(board).free_beside(state.allocated).by_profile[profile.name]:
            ready = (place, True) in state.idle
            clash = frozenset(entry for entry in state.idle if entry[0].mask & place.mask)
            makes_room = bool(clash) and not ready
            if makes_room and (not shape.merging or state.is_fixed):
                continue
            if not makes_room and not ready and place not in _free(board, occupied, profile.name):
                if not shape.merging or state.is_fixed:
                    continue
                clash = state.idle
                makes_room = True
            cost = _fall(board, state.allocated, place, self._mix)
            preference = self._ready * ready - MERGE_COST * makes_room
            preference += SAME_MODE_BONUS * (state.mode is GpuMode.MIG)
            if best is None or preference - cost > best[0]:
                after = GpuState(
                    state.board, GpuMode.MIG, state.allocated | {place}, state.idle - clash,
                    is_whole=False, share_thousandths=None, is_fixed=state.is_fixed,
                )  # fmt: skip
                best = (preference - cost, after)
        if best is None:
            return None
        lost = self.facts(state).value - self.facts(best[1]).value
        return Transition(best[1], best[0] + lost)


def _whole(state: GpuState, shape: DeviceShape) -> Transition | None:
    if state.allocated or state.share_thousandths is not None or (state.idle and not shape.merging):
        return None
    if state.idle and state.is_fixed:
        return None
    preference = SAME_MODE_BONUS * (state.mode is GpuMode.WHOLE) - MERGE_COST * bool(state.idle)
    nothing: frozenset[tuple[Placement, bool]] = frozenset()
    after = GpuState(state.board, GpuMode.WHOLE, frozenset(), nothing, True, None, state.is_fixed)
    return Transition(after, preference)


def _share(state: GpuState, shape: DeviceShape) -> Transition | None:
    """On an empty GPU. `Fleet` finds the GPUs that the project shares already."""
    if state.share_thousandths is not None:
        return None
    if state.allocated or (state.idle and (not shape.merging or state.is_fixed)):
        return None
    preference = SAME_MODE_BONUS * (state.mode is GpuMode.MPS) - MERGE_COST * bool(state.idle)
    thousandths_left = 1_000 - shape.thousandths
    nothing: frozenset[tuple[Placement, bool]] = frozenset()
    after = GpuState(
        state.board, GpuMode.MPS, frozenset(), nothing, False, thousandths_left, state.is_fixed
    )
    return Transition(after, preference)


@lru_cache(65_536)
def _free(board: Board, occupied: frozenset[Placement], profile: str) -> frozenset[Placement]:
    return frozenset(layout_table(board).free_beside(occupied).by_profile[profile])


@lru_cache(65_536)
def _fall(
    board: Board, allocated: frozenset[Placement], place: Placement, mix: ProfileWeights
) -> float:
    """As a fraction of the value of an empty GPU."""
    table = layout_values(board, mix)
    empty = (
        float(table.value[table.graph.layout_number(())]) if table else _squares(board, frozenset())
    )
    return placement_loss(board, allocated, place, mix) / max(empty, 1.0)


@lru_cache(65_536)
def _worth(board: Board, allocated: frozenset[Placement], mix: ProfileWeights) -> float:
    table = layout_values(board, mix)
    number = table.graph.layout_number(allocated) if table else -1
    if table is None or number < 0:
        return _squares(board, allocated) / max(1.0, _squares(board, frozenset()))
    return float(table.value[number] / max(1.0, table.value[table.graph.layout_number(())]))


def _squares(board: Board, allocated: frozenset[Placement]) -> float:
    return float(layout_table(board).free_beside(allocated).room_score)
