"""One place of a GPU, told whole: what it is, who has it, and everything that fits there."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from agents.contract.boards import Board
from agents.contract.geometry import Placement
from agents.contract.layouts import layouts
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Slice
from portal.web.cluster.cell import Block
from portal.web.cluster.map import NodeMap
from portal.web.wording.labels import memory

MOST_WAYS = 8


@dataclass(frozen=True, slots=True)
class PieceTold:
    """`ways`: what can be made there together, most memory first. `amount`: what the request page
    starts with."""

    title: str
    block: Block
    figures: tuple[tuple[str, str], ...]
    ways: tuple[str, ...]
    amount: str
    beside: str

    @property
    def is_free(self) -> bool:
        return self.block.cls in ("free", "idle")


def piece_told(node: NodeMap, gpu_index: int, start: int) -> PieceTold | None:
    """None where there is no such GPU or place."""
    for row in node.rows:
        for block in row.blocks:
            if (row.gpu.index, block.start) == (gpu_index, start):
                return _told(node.name, row.gpu, block)
    return None


def _told(node: str, gpu: Gpu, block: Block) -> PieceTold:
    board = board_of(gpu)
    live: list[Slice] = gpu.live_slices  # type: ignore[attr-defined]  # prefetched
    title = f"{node}, GPU {gpu.index}"
    if block.size != block.of or block.is_share:
        title += f", {block.where}"
    taken = [Placement(piece.start, piece.size, piece.profile) for piece in live if piece.profile]
    ways: tuple[str, ...] = ()
    amount = block.what if block.is_code else ""
    if block.cls == "free" and not block.is_share:
        ways = _ways(board, taken, block)
        amount = "gpus" if block.size == block.of else (ways[0].split(" ")[-1] if ways else "")
    others = len(taken) - (block.cls not in ("free", "dead") and bool(block.what))
    return PieceTold(
        title=title,
        block=block,
        figures=tuple(_figures(board, gpu, block, taken)),
        ways=ways,
        amount=amount,
        beside=_("What stands beside it keeps running.") if others > 0 else "",
    )


def _figures(
    board: Board, gpu: Gpu, block: Block, taken: list[Placement]
) -> Iterator[tuple[str, str]]:
    part = gpu.memory_mib * block.size // block.of
    profile = board.profile(block.what) if block.is_code else None
    yield _("Memory"), memory(profile.memory_mib if profile else part // 1024 * 1024)
    if profile:
        yield (
            _("Compute"),
            _("%(held)s of %(all)s")
            % {"held": profile.compute_slices, "all": board.compute_slices},
        )
    elif block.cls == "free" and not block.is_share:
        used = sum(p.compute_slices for t in taken if (p := board.profile(t.profile)))
        left = {"held": board.compute_slices - used, "all": board.compute_slices}
        yield _("Compute left"), _("%(held)s of %(all)s") % left
    yield _("Model"), board.model


def _ways(board: Board, taken: list[Placement], block: Block) -> tuple[str, ...]:
    """Every set of plain slices that fills the gap as far as it goes, largest first."""
    if not board.supports_mig:
        return ()
    table = layouts(board)
    found: set[tuple[tuple[str, int], ...]] = set()
    size = {p.name: (p.memory_slices, p.compute_slices) for p in board.profiles}

    def grow(here: tuple[Placement, ...]) -> None:
        inside = [
            place
            for place in table.beside((*taken, *here)).fits
            if block.start <= place.start and place.start + place.size <= block.start + block.size
        ]
        if not inside and here:
            names = Counter(place.profile for place in here)
            found.add(tuple(sorted(names.items(), key=lambda item: size[item[0]], reverse=True)))
        last = here[-1].start if here else -1
        for place in (p for p in inside if p.start > last):
            grow((*here, place))

    if block.size == block.of:
        names = [p.name for p in board.profiles if not p.has_media_extensions]
        most = table.beside(()).most
        return tuple(f"{most[name]} × {name}" for name in reversed(names))[:MOST_WAYS]
    grow(())
    ordered = sorted(found, key=lambda way: [(size[n], c) for n, c in way], reverse=True)
    return tuple(" + ".join(f"{c} × {n}" for n, c in way) for way in ordered[:MOST_WAYS])
