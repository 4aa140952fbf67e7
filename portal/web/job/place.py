"""Where a job runs: its GPUs as they lie, with its own slices marked.

Of a job that has ended its own slices are drawn alone, since others use the GPUs by now.
"""

from collections.abc import Iterable, Sequence
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
from portal.web.place_drawing import Part, PlaceDrawing, draw_place
from portal.web.wording.labels import memory_label, share_label

# Nodes of a larger gang are only counted.
MAX_NODES = 4
WIDTH = 312


def job_place(
    user: User, job: Job, replicas: Sequence[Replica], *, is_final: bool
) -> PlaceDrawing | None:
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


def _drawing(nodes: Sequence[tuple[str, GpuCells]], omitted: int) -> PlaceDrawing:
    drawn = [
        (name, [(gpu, [_part(cell, is_own=own) for cell, own in cells]) for gpu, cells in gpus])
        for name, gpus in nodes
    ]
    sentences = [
        f"{name}, {gpu}: {', '.join(part.label for part in parts if part.is_own)}"
        for name, gpus in drawn
        for gpu, parts in gpus
    ]
    more = ""
    if omitted:
        more = ngettext("and %(n)s more node", "and %(n)s more nodes", omitted) % {"n": omitted}
    return draw_place(drawn, sentences, width=WIDTH, more=more)


def _part(cell: Cell, *, is_own: bool) -> Part:
    return Part(
        *(cell.start, cell.size, cell.slots, cell.cls),
        label=cell.device if is_own else "",
        title=cell.title,
        is_own=is_own,
        rows=cell.rows,
        ink=cell.ink,
        fill=cell.fill,
        is_share=cell.is_share,
    )
