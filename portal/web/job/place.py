"""The drawing of where a job runs: its GPUs as they lie, with its own slices marked.

Lengths are SVG user units. Of a job that has ended its own slices are drawn alone, since others use
the GPUs by now.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import User
from portal.allocations.models import Allocation
from portal.inventory.boards import board_of
from portal.jobs.models import Job, Replica
from portal.web.cluster.cell import Cell
from portal.web.cluster.gang_outlines import merge_gangs
from portal.web.cluster.map import GpuRow, NodeMap
from portal.web.cluster.views import node_maps
from portal.web.wording.labels import memory_label, share_label

# Nodes of a larger gang are only counted.
MAX_NODES = 4
LEFT, WIDTH = 58, 254
ROW, GAP, NODE_GAP, NODE_TITLE = 32, 6, 8, 18
# Each further GPU of one block adds this height.
FURTHER_GPU = 14


@dataclass(frozen=True, slots=True)
class PlaceCell:
    """A block of a GPU."""

    cell: Cell
    is_own: bool
    height: int

    @property
    def x(self) -> float:
        return round(LEFT + self.cell.start * WIDTH / self.cell.slots + 1, 1)

    @property
    def width(self) -> float:
        return max(1.0, round(self.cell.size * WIDTH / self.cell.slots - 2, 1))

    @property
    def label(self) -> str:
        return self.cell.device if self.is_own else ""

    @property
    def joints(self) -> list[int]:
        """y of each boundary between the GPUs that the block spans."""
        return [ROW + FURTHER_GPU * nth - 4 for nth in range(self.cell.rows - 1)]


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """A GPU, or several that the job's gang has together."""

    name: str
    y: int
    cells: tuple[PlaceCell, ...]


@dataclass(frozen=True, slots=True)
class PlaceNode:
    name: str
    y: int
    rows: tuple[PlaceRow, ...]


@dataclass(frozen=True, slots=True)
class JobPlace:
    nodes: tuple[PlaceNode, ...]
    height: int
    sentence: str
    omitted_nodes: int


def job_place(
    user: User, job: Job, replicas: Sequence[Replica], *, is_final: bool
) -> JobPlace | None:
    """None for a job without devices on nodes of Tessera's own. Five queries for a job that has not
    ended, none for another."""
    names = list(dict.fromkeys(row.node.name for row in replicas if row.node))
    if not names:
        return None
    if is_final:
        drawn = _past_rows(job, user, replicas)
    else:
        drawn = _present_rows(job, node_maps(user, names[:MAX_NODES], None))
    nodes = [(name, drawn[name]) for name in names[:MAX_NODES] if drawn.get(name)]
    return _drawing(nodes, len(names) - len(nodes)) if nodes else None


GpuCells = list[tuple[str, list[tuple[Cell, bool]]]]
"""By GPU: its name, and its cells with whether they are the job's own."""


def _present_rows(job: Job, maps: Iterable[NodeMap]) -> dict[str, GpuCells]:
    href = f"/jobs/{job.label}/"
    found: dict[str, GpuCells] = {}
    for node in maps:
        rows = [row for row in node.rows if any(cell.href == href for cell in row.cells)]
        found[node.name] = [(row.name, _marked(row, href)) for row in rows]
    return found


def _marked(row: GpuRow, href: str) -> list[tuple[Cell, bool]]:
    return [(cell, cell.href == href) for cell in row.cells]


def _past_rows(job: Job, user: User, replicas: Sequence[Replica]) -> dict[str, GpuCells]:
    cls = "mine" if job.owner_id == user.pk else "team"
    found: dict[str, GpuCells] = {}
    for name, own in groupby(
        sorted((row for row in replicas if row.node), key=lambda row: row.location),
        key=lambda row: row.location,
    ):
        held = [each for replica in own for each in replica.allocations.all()]
        found[name] = _past_gpus(held, cls, f"/jobs/{job.label}/")
    return found


def _past_gpus(held: Iterable[Allocation], cls: str, href: str) -> GpuCells:
    by_gpu: dict[int, list[Cell]] = {}
    for each in held:
        if each.slice:
            cell = _past_cell(each, cls, href)
            by_gpu.setdefault(each.slice.gpu.index, []).append(cell)
    indices = sorted(by_gpu)
    rows: GpuCells = []
    first = 0
    while first < len(indices):
        last = first
        # Only neighbours are one block.
        while last + 1 < len(indices) and indices[last + 1] == indices[last] + 1:
            last += 1
        run = indices[first : last + 1]
        merged = merge_gangs([tuple(by_gpu[index]) for index in run])
        rows += [
            (_gpu_name(index, cells), [(cell, True) for cell in cells])
            for index, cells in zip(run, merged, strict=True)
            if cells
        ]
        first = last + 1
    return rows


def _past_cell(held: Allocation, cls: str, href: str) -> Cell:
    row = held.own_slice
    if row.threads:
        device = share_label(row.threads, memory_label(row.memory_mib))
        return Cell(cls, 0, row.threads, 100, device=device, title=device, is_share=True)
    slots = board_of(row.gpu).memory_slices
    device = row.profile or _("whole")
    return Cell(cls, row.start, row.size, slots, device=device, title=device, href=href, job=href)


def _gpu_name(index: int, cells: tuple[Cell, ...]) -> str:
    rows = max(cell.rows for cell in cells)
    if rows == 1:
        return f"GPU {index}"
    return _("GPU %(first)s to %(last)s") % {"first": index, "last": index + rows - 1}


def _drawing(nodes: Sequence[tuple[str, GpuCells]], omitted: int) -> JobPlace:
    y, drawn, parts = 0, [], []
    for name, gpus in nodes:
        top = y
        y += NODE_TITLE
        rows = []
        for gpu, cells in gpus:
            tallest = max(cell.rows for cell, _own in cells)
            height = ROW + FURTHER_GPU * (tallest - 1)
            blocks = tuple(
                PlaceCell(replace(cell, is_selected=False), own, height) for cell, own in cells
            )
            rows.append(PlaceRow(gpu, y, blocks))
            y += height + GAP
            own = ", ".join(block.label for block in blocks if block.is_own)
            parts.append(f"{name}, {gpu}: {own}")
        drawn.append(PlaceNode(name, top, tuple(rows)))
        y += NODE_GAP
    sentence = "; ".join(parts)
    if omitted:
        more = ngettext("and %(n)s more node", "and %(n)s more nodes", omitted) % {"n": omitted}
        sentence = f"{sentence}; {more}"
    return JobPlace(tuple(drawn), y - GAP - NODE_GAP, sentence, omitted)
