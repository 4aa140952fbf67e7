"""Details of one cell of the cluster map: occupant, size and the profiles that fit there."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _

from agents.contract.boards import Board
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Slice
from portal.web.cluster.cell import Cell
from portal.web.cluster.map import NodeMap
from portal.web.wording.labels import memory_label

MAX_SLICE_SETS = 8


@dataclass(frozen=True, slots=True)
class CellDetails:
    title: str
    cell: Cell
    figures: tuple[tuple[str, str], ...]
    # Sets of slices that can be carved here together, most memory first.
    slice_sets: tuple[str, ...]
    # The amount that the request page starts with; empty for its default.
    request_amount: str
    neighbours_note: str

    @property
    def is_free(self) -> bool:
        return self.cell.cls in ("free", "idle")


def cell_details(node: NodeMap, gpu_index: int, start: int) -> CellDetails | None:
    """The details, or None if the node has no such GPU or cell."""
    for row in node.rows:
        for cell in row.cells:
            if (row.gpu.index, cell.start) == (gpu_index, start):
                return _details(node.name, row.gpu, cell)
    return None


def _details(node: str, gpu: Gpu, cell: Cell) -> CellDetails:
    board = board_of(gpu)
    live: list[Slice] = gpu.live_slices  # type: ignore[attr-defined]  # prefetched
    title = f"{node}, GPU {gpu.index}"
    if cell.size != cell.slots or cell.is_share:
        title += f", {cell.position}"
    placed = [Placement(row.start, row.size, row.profile) for row in live if row.profile]
    sets: tuple[str, ...] = ()
    amount = cell.device if cell.is_code else ""
    if cell.cls == "free" and not cell.is_share:
        sets = _slice_sets(board, placed, cell)
        amount = "gpus" if cell.size == cell.slots else (sets[0].split(" ")[-1] if sets else "")
    others = len(placed) - (cell.cls not in ("free", "dead") and bool(cell.device))
    return CellDetails(
        title=title,
        cell=cell,
        figures=tuple(_figures(board, gpu, cell, placed)),
        slice_sets=sets,
        request_amount=amount,
        neighbours_note=_("The slices beside it keep running.") if others > 0 else "",
    )


def _figures(
    board: Board, gpu: Gpu, cell: Cell, placed: list[Placement]
) -> Iterator[tuple[str, str]]:
    cell_mib = gpu.memory_mib * cell.size // cell.slots
    profile = board.profile(cell.device) if cell.is_code else None
    yield _("Memory"), memory_label(profile.memory_mib if profile else cell_mib // 1024 * 1024)
    if profile:
        yield (
            _("Compute"),
            _("%(held)s of %(all)s")
            % {"held": profile.compute_slices, "all": board.compute_slices},
        )
    elif cell.cls == "free" and not cell.is_share:
        used = sum(p.compute_slices for at in placed if (p := board.profile(at.profile)))
        left = {"held": board.compute_slices - used, "all": board.compute_slices}
        yield _("Compute left"), _("%(held)s of %(all)s") % left
    yield _("Model"), board.model


def _slice_sets(board: Board, placed: list[Placement], cell: Cell) -> tuple[str, ...]:
    """The maximal sets of plain slices that fit into a free cell, largest first."""
    if not board.supports_mig:
        return ()
    table = layout_table(board)
    maximal: set[tuple[tuple[str, int], ...]] = set()
    size = {p.name: (p.memory_slices, p.compute_slices) for p in board.profiles}

    def extend(chosen: tuple[Placement, ...]) -> None:
        inside = [
            place
            for place in table.free_beside((*placed, *chosen)).plain
            if cell.start <= place.start and place.start + place.size <= cell.start + cell.size
        ]
        if not inside and chosen:
            names = Counter(place.profile for place in chosen)
            maximal.add(tuple(sorted(names.items(), key=lambda item: size[item[0]], reverse=True)))
        last = chosen[-1].start if chosen else -1
        for place in (p for p in inside if p.start > last):
            extend((*chosen, place))

    if cell.size == cell.slots:
        names = [p.name for p in board.profiles if not p.has_media_extensions]
        most = table.free_beside(()).max_count
        return tuple(f"{most[name]} × {name}" for name in reversed(names))[:MAX_SLICE_SETS]
    extend(())
    ordered = sorted(maximal, key=lambda names: [(size[n], c) for n, c in names], reverse=True)
    return tuple(" + ".join(f"{c} × {n}" for n, c in names) for names in ordered[:MAX_SLICE_SETS])
