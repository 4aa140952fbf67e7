"""The kinds of device of a cluster, as the advisor weighs them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from agents.contract.boards import Board, Profile
from agents.contract.documents import SliceKind
from agents.contract.units import UNITS_PER_GPU
from portal.advice.figures import MIB, board_figures
from portal.prices.price_table import priced_profiles
from scheduler.advisor.gpus import GpuFigures
from scheduler.core.availability.cluster import ClusterAvailability
from scheduler.core.availability.counts import DeviceCount, DeviceKind


@dataclass(frozen=True, slots=True)
class ClusterDevice:
    """A MIG slice or a whole GPU of one board."""

    board: Board
    model: str
    """As a request names the board: by its model, or by its key where several have that."""
    profile: Profile | None
    """None for a whole GPU."""
    count: DeviceCount
    """How many more could start now."""
    node_gpus: tuple[int, ...] = ()
    """Whole GPUs of this board on each node that takes work, the largest first."""

    @property
    def kind(self) -> SliceKind:
        return SliceKind.MIG if self.profile else SliceKind.GPU

    @property
    def name(self) -> str:
        """ "H200 2g.35gb", or "H200"."""
        return f"{self.model} {self.profile.name}" if self.profile else self.model

    @property
    def memory_bytes(self) -> int:
        return (self.profile or self.board).memory_mib * MIB

    @property
    def units(self) -> int:
        return self.board.units(self.profile) if self.profile else UNITS_PER_GPU

    @property
    def figures(self) -> GpuFigures | None:
        """Its speeds; None for a board that the advisor has none of."""
        return board_figures(self.board, self.profile)

    def gang_sizes(self) -> Iterator[tuple[int, int]]:
        """Numbers of several devices to try, from small to large, as nodes and devices on each:
        powers of two on a node, then of such nodes. Slices are not joined: they have no fast way to
        each other."""
        if self.profile or not self.node_gpus:
            return
        each = 2
        while each <= self.node_gpus[0]:
            yield 1, each
            each *= 2
        each //= 2
        equal = sum(1 for gpus in self.node_gpus if gpus >= each)
        nodes = 2
        while nodes <= equal:
            yield nodes, each
            nodes *= 2


def cluster_devices(cluster: ClusterAvailability) -> list[ClusterDevice]:
    """Every kind of device that a node has, the one that costs least first. A slice as large as its
    GPU is left to the GPU."""
    boards = [cluster.board_table[key] for key in sorted(cluster.boards)]
    models = [board.model for board in boards]
    found: list[ClusterDevice] = []
    for board in boards:
        model = board.model if models.count(board.model) == 1 else board.key
        node_gpus = _gpus_of(cluster, board)
        for profile in (None, *priced_profiles(board)):
            kind = DeviceKind(SliceKind.MIG if profile else SliceKind.GPU, _name(profile))
            count = cluster.boards[board.key].of(kind)
            found.append(ClusterDevice(board, model, profile, count, node_gpus))
    return sorted(found, key=lambda each: (each.units, each.memory_bytes, each.name))


def _name(profile: Profile | None) -> str:
    return profile.name if profile else ""


def _gpus_of(cluster: ClusterAvailability, board: Board) -> tuple[int, ...]:
    counts = (node.boards.get(board.key) for node in cluster.nodes.values())
    return tuple(sorted((each.in_service for each in counts if each), reverse=True))
