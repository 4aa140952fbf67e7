"""What the mix of lately asks of one board, by profile."""

from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement
from scheduler.core.devices.options import device_options, gpu_board
from scheduler.core.geometry.placement_value import (
    NO_PLACE,
    READY_BONUS,
    LayoutValues,
    ProfileWeights,
    layout_values,
    min_empty_gpus,
    placement_loss,
    profile_weights,
)
from scheduler.core.model.snapshot import ClusterSnapshot, DemandMix

if TYPE_CHECKING:
    from scheduler.core.placement.ledger import Ledger


@lru_cache(256)
def demanded_profiles(board: Board, mix: DemandMix) -> ProfileWeights:
    """How often each profile is asked for; whole GPUs and MPS shares, which need an empty GPU,
    count as the largest profile. A request that several profiles serve counts for the cheapest.
    Empty where nothing in the mix can run on this board."""
    counts: Counter[str] = Counter()
    largest = max(board.profiles, key=lambda p: (p.memory_slices, p.compute_slices), default=None)
    for demand in mix.demands:
        ways = device_options(demand.device, [board])
        if not ways or largest is None:
            continue
        way = ways[0]
        name = way.profile if way.kind is SliceKind.MIG else largest.name
        counts[name] += demand.count * way.count
    return profile_weights(counts) if counts.total() else ()


class PlacementValues:
    """The value tables of one planning pass: one look-up by the board's key. `roomy`: the boards of
    which many GPUs were empty when it began."""

    def __init__(self, mix: DemandMix, roomy: Collection[str] = ()) -> None:
        self._mix = mix
        self._roomy = roomy
        self._found: dict[str, LayoutValues | None] = {}

    @property
    def ready_bonus(self) -> float:
        """How much room a slice that is ready may cost more than one that has to be made: where
        nobody knows what will be asked for, any."""
        return READY_BONUS if self._mix.demands else inf

    def loss(self, board: Board, allocated: Collection[Placement], place: Placement) -> float:
        """How much the room of a GPU falls when `place` is made beside what runs; see `windows`."""
        if board.key not in self._found:
            self._found[board.key] = layout_values(board, demanded_profiles(board, self._mix))
        table, among_empty = self._found[board.key], board.key in self._roomy
        if (
            table is None
            or (lost := table.loss(allocated, place, is_roomy=among_empty)) == NO_PLACE
        ):
            return placement_loss(board, allocated, place)
        return lost


def placement_values(one_pass: "Ledger") -> PlacementValues:
    """The tables of a pass, made when it first asks."""
    snapshot = one_pass.snapshot

    def made() -> PlacementValues:
        return PlacementValues(snapshot.mix, roomy_boards(snapshot))

    return one_pass.cached("tables of slices", made, for_whole_pass=True)


def roomy_boards(snapshot: ClusterSnapshot) -> frozenset[str]:
    """The boards, by key, of which many usable GPUs are empty: nobody holds a slice of them."""
    usable: Counter[str] = Counter()
    empty: Counter[str] = Counter()
    for node in snapshot.nodes:
        for gpu in node.gpus if node.available else ():
            if gpu.healthy:
                key = gpu_board(gpu).key
                usable[key] += 1
                empty[key] += not any(seen.allocated for seen in gpu.slices)
    return frozenset(key for key, count in usable.items() if empty[key] >= min_empty_gpus(count))
