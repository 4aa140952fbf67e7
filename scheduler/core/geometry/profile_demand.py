"""The demand for each profile of a board, and what MIG placements are worth under that demand."""

from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from math import inf

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


@lru_cache(256)
def demanded_profiles(board: Board, mix: DemandMix) -> ProfileWeights:
    """How often the mix requests each profile of a board; empty if nothing in it can run there.

    Whole GPUs and MPS shares, which need an empty GPU, count as the largest profile. A request that
    several profiles serve counts for the cheapest."""
    counts: Counter[str] = Counter()
    largest = max(board.profiles, key=lambda p: (p.memory_slices, p.compute_slices), default=None)
    for demand in mix.demands:
        options = device_options(demand.device, [board])
        if not options or largest is None:
            continue
        cheapest = options[0]
        name = cheapest.profile if cheapest.kind is SliceKind.MIG else largest.name
        counts[name] += demand.count * cheapest.count
    return profile_weights(counts) if counts.total() else ()


class PlacementValues:
    """What MIG placements cost in one planning pass."""

    def __init__(self, mix: DemandMix, roomy: Collection[str] = ()) -> None:
        """`roomy`: keys of the boards of which many GPUs are empty when the pass begins."""
        self._mix = mix
        self._roomy = roomy
        self._tables: dict[str, LayoutValues | None] = {}

    @property
    def ready_bonus(self) -> float:
        """How much more room a ready slice may cost than one that has to be made; without a known
        mix, any amount."""
        return READY_BONUS if self._mix.demands else inf

    def loss(self, board: Board, allocated: Collection[Placement], place: Placement) -> float:
        """How much the value V of a GPU falls when `place` is made beside the `allocated` slices:
        see `placement_value`."""
        if board.key not in self._tables:
            self._tables[board.key] = layout_values(board, demanded_profiles(board, self._mix))
        table, is_roomy = self._tables[board.key], board.key in self._roomy
        if table is None or (lost := table.loss(allocated, place, is_roomy=is_roomy)) == NO_PLACE:
            return placement_loss(board, allocated, place)
        return lost


def roomy_boards(snapshot: ClusterSnapshot) -> frozenset[str]:
    """Keys of the boards of which many usable GPUs are empty, with no slice allocated."""
    usable: Counter[str] = Counter()
    empty: Counter[str] = Counter()
    for node in snapshot.nodes:
        for gpu in node.gpus if node.available else ():
            if gpu.healthy:
                key = gpu_board(gpu).key
                usable[key] += 1
                empty[key] += not any(each.allocated for each in gpu.slices)
    return frozenset(key for key, count in usable.items() if empty[key] >= min_empty_gpus(count))
