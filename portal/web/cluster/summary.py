"""What is free now by GPU model, and which slices could be carved: the head of the Cluster page."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from portal.availability.nodes import BoardCounts, NodeAvailability, counts_by_board
from portal.web.cluster.filter import NodeFilter
from portal.web.wording.labels import gigabytes


@dataclass(frozen=True, slots=True)
class ProfileStock:
    """Slices of one profile that are available on the GPUs of a model."""

    profile: str
    size: str
    # Idle slices.
    ready: int
    # More that could be carved, if nothing else is.
    carvable: int
    # Query string of the page with only the nodes that have room for one.
    query: str
    is_selected: bool


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """Totals of the GPUs of one board."""

    model: str
    key: str
    nodes: int
    gpus: int
    # GPUs with nothing allocated or carved.
    free: int
    idle_slices: int
    out_of_service: int
    # Profiles smaller than the GPU.
    profiles: tuple[ProfileStock, ...]
    query: str


def model_summaries(
    nodes: Iterable[NodeAvailability], node_filter: NodeFilter
) -> list[ModelSummary]:
    return [
        ModelSummary(
            model=counts.board.model,
            key=counts.board.key,
            nodes=node_count,
            gpus=counts.gpus,
            free=counts.empty,
            idle_slices=counts.idle_slices,
            out_of_service=counts.out_of_service,
            profiles=tuple(_profiles(counts, node_filter)),
            query=replace(node_filter, model=counts.board.model, page=1).query,
        )
        for counts, node_count in counts_by_board(nodes)
    ]


def _profiles(counts: BoardCounts, node_filter: NodeFilter) -> Iterator[ProfileStock]:
    idle, carvable = counts.idle_profiles, counts.carvable
    for profile in counts.board.profiles:
        if profile.has_media_extensions or profile.memory_slices == counts.board.memory_slices:
            continue
        yield ProfileStock(
            profile=profile.name,
            size=gigabytes(profile.name),
            ready=idle[profile.name],
            carvable=carvable[profile.name],
            query=replace(node_filter, fits=profile.name, page=1).query,
            is_selected=node_filter.fits == profile.name,
        )
