"""What is free now by model of GPU, and what could be made of it: the head of the cluster page."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from portal.availability.nodes import NodeDigest, OfBoard, by_board
from portal.web.cluster.filter import Wanted
from portal.web.wording.labels import gigabytes


@dataclass(frozen=True, slots=True)
class Fit:
    """A profile: how many slices of it are idle, and how many more can be carved, if nothing else
    is. `query`: the page narrowed to nodes with room for it."""

    profile: str
    size: str
    ready: int
    carvable: int
    query: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class OfModel:
    """GPUs of one board. `free`: nothing is on them. `fits`: slices smaller than one."""

    model: str
    key: str
    nodes: int
    gpus: int
    free: int
    idle: int
    out: int
    fits: tuple[Fit, ...]
    query: str


def summary(nodes: Iterable[NodeDigest], want: Wanted) -> list[OfModel]:
    return [
        OfModel(
            model=of.board.model,
            key=of.board.key,
            nodes=count,
            gpus=of.gpus,
            free=of.empty,
            idle=of.idle,
            out=of.out,
            fits=tuple(_fits(of, want)),
            query=replace(want, model=of.board.model, page=1).query,
        )
        for of, count in by_board(nodes)
    ]


def _fits(of: OfBoard, want: Wanted) -> Iterator[Fit]:
    made, fits = of.made, of.fits
    for profile in of.board.profiles:
        if profile.has_media_extensions or profile.memory_slices == of.board.memory_slices:
            continue
        yield Fit(
            profile=profile.name,
            size=gigabytes(profile.name),
            ready=made[profile.name],
            carvable=fits[profile.name],
            query=replace(want, fits=profile.name, page=1).query,
            is_chosen=want.fits == profile.name,
        )
