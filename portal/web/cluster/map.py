"""The cell map: each GPU as a row of memory slices, each slice at its true position and size.

Pure geometry over rows read elsewhere; lengths are SVG user units.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.boards import Board
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from portal.allocations.selectors import SliceHolder
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Slice
from portal.web.cluster.cell import LEFT, MINI_ROW, ROW_HEIGHT, WIDTH, Cell
from portal.web.cluster.gang_outlines import merge_gangs
from portal.web.cluster.node_health import out_of_service_reason, takes_work
from portal.web.cluster.numa_brackets import Bracket
from portal.web.wording.labels import NBSP, duration, memory_label, share_label
from scheduler.core.availability.cluster import ClusterAvailability
from scheduler.core.model.states import GpuHealth, SliceStatus

TOP = 22
PIPS_AT, PIP = 490, 8.0
# A share of at least this percentage has room for its memory beside its threads.
WIDE_SHARE = 25


@dataclass(frozen=True, slots=True)
class MapViewer:
    """Decides which cells are "yours" and which are "your project"."""

    username: str
    projects: frozenset[str]
    # Node, GPU index and first memory slice of the cell that was clicked.
    selected: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU of the map."""

    gpu: Gpu
    y: int
    mini_y: int
    mode: str
    cells: tuple[Cell, ...]
    # x of the mark of each compute slice, and whether that slice is allocated.
    pips: tuple[tuple[float, bool], ...]
    compute: str
    is_faulted: bool

    @property
    def name(self) -> str:
        """ "GPU 0", or "GPU 0 to 3" for the first row of a gang."""
        rows = max((block.rows for block in self.cells), default=1)
        first = self.gpu.index
        if rows == 1:
            return f"GPU {first}"
        return _("GPU %(first)s to %(last)s") % {"first": first, "last": first + rows - 1}


@dataclass(slots=True)
class NodeMap:
    """The drawing of one node."""

    name: str
    rows: list[GpuRow] = field(default_factory=list)
    # x and number of each memory slice, if a GPU has more than one.
    columns: list[tuple[float, int]] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    # As `with_counts` has them.
    free: int = 0
    idle: int = 0

    @property
    def label_x(self) -> int:
        """Left edge of the GPU names: right of the NUMA brackets."""
        return 22 if self.brackets else 0

    @property
    def height(self) -> int:
        return TOP + ROW_HEIGHT * len(self.rows)

    @property
    def mini_height(self) -> int:
        return MINI_ROW * len(self.rows)

    @property
    def sentence(self) -> str:
        count = len(self.rows)
        gpus = ngettext("%(n)s GPU", "%(n)s GPUs", count) % {"n": count}
        words = {"name": self.name, "gpus": gpus, "free": self.free, "idle": self.idle}
        return _("%(name)s: %(gpus)s, %(free)s free; %(idle)s idle slices") % words


def draw_nodes(
    gpus: Iterable[Gpu], holders: Mapping[UUID, SliceHolder], viewer: MapViewer
) -> list[NodeMap]:
    """A map for each node, in the order of `gpus`, which carry `live_slices`
    (`portal.inventory.selectors.gpus`)."""
    maps: dict[str, NodeMap] = {}
    for gpu in gpus:
        node = maps.setdefault(gpu.node.name, NodeMap(gpu.node.name))
        board = board_of(gpu)
        count = board.memory_slices
        if len(node.columns) < count > 1:
            node.columns = [(round(LEFT + (i + 0.5) * WIDTH / count, 1), i) for i in range(count)]
        row = _row(gpu, board, holders, viewer, len(node.rows))
        node.rows.append(_with_selection(row, gpu, viewer) if viewer.selected else row)
    for node in maps.values():
        merged = merge_gangs([row.cells for row in node.rows])
        node.rows = [replace(r, cells=c) for r, c in zip(node.rows, merged, strict=True)]
    return list(maps.values())


def with_counts(maps: list[NodeMap], cluster: ClusterAvailability) -> list[NodeMap]:
    """The same maps, with what is free on each node."""
    for node in maps:
        if counts := cluster.nodes.get(node.name):
            node.free, node.idle = counts.total.free_gpus, counts.total.idle_slices
    return maps


def _with_selection(row: GpuRow, gpu: Gpu, viewer: MapViewer) -> GpuRow:
    cells = tuple(
        replace(cell, is_selected=(gpu.node.name, gpu.index, cell.start) == viewer.selected)
        for cell in row.cells
    )
    return replace(row, cells=cells)


def _row(
    gpu: Gpu, board: Board, holders: Mapping[UUID, SliceHolder], viewer: MapViewer, nth: int
) -> GpuRow:
    live: list[Slice] = gpu.live_slices  # type: ignore[attr-defined]  # prefetched
    is_faulted = gpu.health != GpuHealth.OK
    if is_faulted:
        mode, cells = _("faulted"), [_faulted_cell(gpu, board)]
    else:
        mode = _mode(gpu, live)
        cells = [_slice_cell(board, row, holders.get(row.pk), viewer) for row in live]
        if gpu.shared_threads:
            cells = _share_cells(cells, live)
        elif gpu.busy:
            cells = cells or [_foreign_cell(board)]
        else:
            cells += _free_cells(board, live)
    if not takes_work(gpu.node):
        cells = [_unavailable(cell) for cell in cells]
    cells = [cell if cell.href else _linked_to_details(cell, gpu) for cell in cells]
    allocated = sum(_compute(board, row) for row in live if row.pk in holders)
    if gpu.shared_threads:
        allocated = math.ceil(Fraction(gpu.shared_threads * board.compute_slices, 100))
    return GpuRow(
        gpu=gpu,
        y=TOP + ROW_HEIGHT * nth,
        mini_y=MINI_ROW * nth,
        mode=mode,
        cells=tuple(sorted(cells, key=lambda cell: cell.start)),
        pips=tuple((PIPS_AT + PIP * i, i < allocated) for i in range(board.compute_slices)),
        compute=_compute_label(gpu, allocated, board.compute_slices),
        is_faulted=is_faulted,
    )


def _compute_label(gpu: Gpu, allocated: int, total: int) -> str:
    if gpu.shared_threads:
        return f"{gpu.shared_threads}{NBSP}%"
    return _("%(held)s of %(all)s") % {"held": allocated, "all": total}


def _linked_to_details(cell: Cell, gpu: Gpu) -> Cell:
    """A cell without a job links to the details panel."""
    return replace(cell, href=f"/cluster/{gpu.node.name}/?gpu={gpu.index}&at={cell.start}#cell")


def _time_left(holder: SliceHolder | None) -> str:
    """How long the job may still run, empty if unknown."""
    if holder is None or holder.until is None:
        return ""
    seconds = (holder.until - timezone.now()).total_seconds()
    return _("%(time)s left") % {"time": duration(seconds)} if seconds > 0 else _("ends now")


def _slice_cell(board: Board, row: Slice, holder: SliceHolder | None, viewer: MapViewer) -> Cell:
    device = row.profile or _("whole")
    cls, state = _state(row, holder, viewer)
    job, left = holder.name if holder else "", _time_left(holder)
    words = (state, job, left) if row.size * 2 >= board.memory_slices else (state, job)
    occupancy = f"{state} · {holder.project}" if holder and holder.project else state
    return Cell(
        cls=cls,
        start=row.start,
        size=row.size,
        slots=board.memory_slices,
        label=device.split(".")[0] if row.size == 1 else device,
        sublabel=" · ".join(filter(None, words)) if row.size > 1 else state,
        title=", ".join(filter(None, (device, state, job, left))),
        href=f"/jobs/{holder.job}/" if holder and holder.job else "",
        device=device,
        occupancy=occupancy,
        job=job,
        is_code=bool(row.profile),
        until=left or {"carve": state, "idle": _("ready")}.get(cls, ""),
    )


def _mode(gpu: Gpu, live: list[Slice]) -> str:
    if gpu.shared_threads:
        return "MPS"
    return "MIG" if gpu.observed_mode == "mig" else _("whole")


def _share_cells(cells: list[Cell], live: list[Slice]) -> list[Cell]:
    """Shares side by side, in percent of the threads: they have no position on the GPU."""
    shares, start = [], 0
    for cell, row in zip(cells, live, strict=True):
        size = memory_label(row.memory_mib)
        device = share_label(row.threads, size)
        share = replace(
            cell,
            label=f"{row.threads}{NBSP}%" + f" + {size}" * (row.threads >= WIDE_SHARE),
            device=device,
            title=", ".join(filter(None, (device, cell.occupancy, cell.job))),
        )
        shares.append(replace(share, start=start, size=row.threads, slots=100, is_share=True))
        start += row.threads
    if start < 100:
        shares.append(_share_rest(start, is_ours=any(c.cls in ("mine", "team") for c in cells)))
    return shares


def _share_rest(start: int, *, is_ours: bool) -> Cell:
    """The part of a shared GPU that is still free, open to the project that shares it only."""
    room = _("free for shares of the same project")
    rest = Cell("free" if is_ours else "dead", start, 100 - start, slots=100, is_share=True)
    label = _("Free") if is_ours else ""
    sublabel = _("for your project") if is_ours else ""
    href = "/request/?amount=mps" if is_ours else ""
    return replace(rest, label=label, sublabel=sublabel, title=room, occupancy=room, href=href)


def _unavailable(cell: Cell) -> Cell:
    """A free cell of a node that takes no new work cannot be had."""
    if cell.cls != "free":
        return cell
    why = _("the node takes no new work")
    return replace(
        cell, cls="dead", label="", sublabel="", title=why, occupancy=why, href="", until=""
    )


def _foreign_cell(board: Board) -> Cell:
    """A healthy GPU that a process outside of Tessera uses."""
    slots, why = (
        board.memory_slices,
        _("a process outside Tessera uses it; unavailable until it exits"),
    )
    label = _("Foreign process")
    title = f"{label}: {why}"
    return Cell("other", 0, slots, slots, label=label, sublabel=why, title=title, occupancy=why)


def _state(row: Slice, holder: SliceHolder | None, viewer: MapViewer) -> tuple[str, str]:
    """CSS class and label: the fill shows who holds the slice, the edge its state."""
    if row.status in (SliceStatus.PLANNED, SliceStatus.CREATING) and row.profile:
        return "carve", _("being carved")
    if row.status == SliceStatus.DELETING:
        return "carve", _("being merged")
    if holder is None:
        return "idle", _("idle")
    if not holder.job:
        return "other", _("another project")
    if holder.owner == viewer.username:
        return "mine", holder.owner
    return ("team" if holder.project in viewer.projects else "other"), holder.owner


def _faulted_cell(gpu: Gpu, board: Board) -> Cell:
    why = out_of_service_reason(gpu)
    return Cell(
        cls="fault",
        start=0,
        size=board.memory_slices,
        slots=board.memory_slices,
        label=_("Out of service"),
        sublabel=why,
        title=_("Out of service: %(why)s") % {"why": why},
        device=_("Out of service"),
        occupancy=why,
    )


def _free_cells(board: Board, live: list[Slice]) -> list[Cell]:
    """The runs of free memory slices and what fits there; "dead" where no profile can start."""
    placed = [Placement(row.start, row.size, row.profile) for row in live]
    if any(not place.profile for place in placed):
        return []
    covered = {i for place in placed for i in range(place.start, place.start + place.size)}
    cells, start = [], 0
    while start < board.memory_slices:
        end = start
        while end < board.memory_slices and end not in covered:
            end += 1
        if end > start:
            cells.append(_free_cell(board, placed, start, end - start))
        start = max(end, start + 1)
    return cells


def _free_cell(board: Board, placed: list[Placement], start: int, size: int) -> Cell:
    slots = board.memory_slices
    fits = _largest_fit(board, placed, start, size)
    if not fits:
        nothing = _("no MIG profile fits here")
        title, occupancy = nothing, _("unusable")
        return Cell("dead", start, size, slots, title=title, occupancy=occupancy, until=nothing)
    return Cell(
        cls="free",
        start=start,
        size=size,
        slots=slots,
        label=_("Free"),
        sublabel=fits if size > 1 else "",
        title=_("Free: fits %(fits)s") % {"fits": fits},
        occupancy=_("free"),
        until=_("fits %(fits)s") % {"fits": fits},
    )


def _largest_fit(board: Board, placed: list[Placement], start: int, size: int) -> str:
    """The largest device that can be made in this gap, empty if none can."""
    if size == board.memory_slices:
        return _("a whole GPU, or any MIG layout") if board.supports_mig else _("a whole GPU")
    inside = [
        place
        for place in layout_table(board).free_beside(placed).plain
        if start <= place.start and place.start + place.size <= start + size
    ]
    return max(inside, key=lambda place: place.size).profile if inside else ""


def _compute(board: Board, row: Slice) -> int:
    profile = board.profile(row.profile) if row.profile else None
    return profile.compute_slices if profile else board.compute_slices
