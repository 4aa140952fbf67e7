"""What is free now by GPU model and by size of slice: the head of the Cluster page."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from portal.availability.nodes import NodeSummary, totals_by_board
from portal.web.cluster.filter import NodeFilter
from portal.web.wording.capacity import device_breakdown
from portal.web.wording.labels import gigabytes
from scheduler.core.availability.cluster import ClusterAvailability
from scheduler.core.availability.counts import Availability, DeviceKind


@dataclass(frozen=True, slots=True)
class ProfileStock:
    """Slices of one profile on the GPUs of a model."""

    profile: str
    size: str
    # How many more could start, each profile counted on its own; and how, in words.
    available: int
    breakdown: str
    # Query string of the page with only the nodes that have room for one.
    query: str
    is_selected: bool


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """Totals of the GPUs of one board."""

    model: str
    key: str
    nodes: int
    total: Availability
    # Profiles smaller than the GPU.
    profiles: tuple[ProfileStock, ...]
    query: str


def model_summaries(
    nodes: Collection[NodeSummary], cluster: ClusterAvailability, node_filter: NodeFilter
) -> list[ModelSummary]:
    return [
        ModelSummary(
            model=board.model,
            key=board.key,
            nodes=node_count,
            total=total,
            profiles=tuple(_profiles(board, total, node_filter)),
            query=replace(node_filter, model=board.model, page=1).query,
        )
        for board, total, node_count in totals_by_board(nodes, cluster)
    ]


def _profiles(board: Board, total: Availability, node_filter: NodeFilter) -> Iterator[ProfileStock]:
    for profile in board.profiles:
        if profile.has_media_extensions or profile.memory_slices == board.memory_slices:
            continue
        count = total.of(DeviceKind(SliceKind.MIG, profile.name))
        yield ProfileStock(
            profile=profile.name,
            size=gigabytes(profile.name),
            available=count.available,
            breakdown=device_breakdown(count),
            query=replace(node_filter, fits=profile.name, page=1).query,
            is_selected=node_filter.fits == profile.name,
        )
