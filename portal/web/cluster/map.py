"""The cell map: every GPU as a row of its memory slices, every slice where it really sits.

Pure geometry from rows that were read before; numbers are SVG user units. Templates print it.
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
from agents.contract.layouts import layouts
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Slice
from portal.inventory.selectors import Holder
from portal.web.cluster.cell import LEFT, ROW, WIDTH, Block
from portal.web.cluster.gang_outlines import joined_gangs
from portal.web.cluster.node_health import takes_work, why_out
from portal.web.cluster.numa_brackets import Bracket
from portal.web.wording.labels import NBSP, duration, memory
from portal.web.wording.labels import share as words_of_share
from scheduler.core.model.states import GpuHealth, SliceStatus

TOP = 22
PIPS_AT, PIP = 490, 8.0
MINI_ROW = 11
# From this percentage on, a share has room for its memory beside its threads.
WIDE_SHARE = 25


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks: whose blocks are "yours", and which projects are "your project". `chosen`: the GPU
    and the memory slice that were clicked, by node."""

    username: str
    projects: frozenset[str]
    chosen: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One GPU. `pips`: x of each compute slice, and whether it is held."""

    gpu: Gpu
    y: int
    mini_y: int
    mode: str
    blocks: tuple[Block, ...]
    pips: tuple[tuple[float, bool], ...]
    compute: str
    is_faulted: bool

    @property
    def name(self) -> str:
        """ "GPU 0", or "GPU 0 to 3" of a gang's first row."""
        rows = max((block.rows for block in self.blocks), default=1)
        first = self.gpu.index
        if rows == 1:
            return f"GPU {first}"
        return _("GPU %(first)s to %(last)s") % {"first": first, "last": first + rows - 1}

    @property
    def is_free(self) -> bool:
        """Nothing is on it: neither held nor made."""
        nothing = all(block.cls == "free" and block.size == block.of for block in self.blocks)
        return nothing and bool(self.blocks)


@dataclass(slots=True)
class NodeMap:
    """A node's drawing. `columns`: x and number of each memory slice, where there are several.
    Nothing is free on one that does not take work."""

    name: str
    rows: list[Row] = field(default_factory=list)
    columns: list[tuple[float, int]] = field(default_factory=list)
    takes_work: bool = True
    brackets: list[Bracket] = field(default_factory=list)

    @property
    def label_x(self) -> int:
        """Where the names of GPUs begin: right of the brackets."""
        return 22 if self.brackets else 0

    @property
    def height(self) -> int:
        return TOP + ROW * len(self.rows)

    @property
    def mini_height(self) -> int:
        return MINI_ROW * len(self.rows)

    @property
    def free(self) -> int:
        return sum(row.is_free for row in self.rows) if self.takes_work else 0

    @property
    def idle(self) -> int:
        idle = sum(block.cls == "idle" for row in self.rows for block in row.blocks)
        return idle if self.takes_work else 0

    @property
    def sentence(self) -> str:
        count = len(self.rows)
        gpus = ngettext("%(n)s GPU", "%(n)s GPUs", count) % {"n": count}
        words = {"name": self.name, "gpus": gpus, "free": self.free, "idle": self.idle}
        return _("%(name)s: %(gpus)s, %(free)s of them free, %(idle)s idle slices") % words


def draw(gpus: Iterable[Gpu], holders: Mapping[UUID, Holder], viewer: Viewer) -> list[NodeMap]:
    """One map a node, in the order given. `gpus` carry `live_slices` (inventory.selectors.gpus)."""
    maps: dict[str, NodeMap] = {}
    for gpu in gpus:
        new = NodeMap(gpu.node.name, takes_work=takes_work(gpu.node))
        node = maps.setdefault(gpu.node.name, new)
        board = board_of(gpu)
        count = board.memory_slices
        if len(node.columns) < count > 1:
            node.columns = [(round(LEFT + (i + 0.5) * WIDTH / count, 1), i) for i in range(count)]
        row = _row(gpu, board, holders, viewer, len(node.rows))
        node.rows.append(_chosen(row, gpu, viewer) if viewer.chosen else row)
    for node in maps.values():
        whole = joined_gangs([row.blocks for row in node.rows])
        node.rows = [replace(r, blocks=b) for r, b in zip(node.rows, whole, strict=True)]
    return list(maps.values())


def _chosen(row: Row, gpu: Gpu, viewer: Viewer) -> Row:
    blocks = tuple(
        replace(block, is_chosen=(gpu.node.name, gpu.index, block.start) == viewer.chosen)
        for block in row.blocks
    )
    return replace(row, blocks=blocks)


def _row(gpu: Gpu, board: Board, holders: Mapping[UUID, Holder], viewer: Viewer, nth: int) -> Row:
    live: list[Slice] = gpu.live_slices  # type: ignore[attr-defined]  # prefetched
    is_faulted = gpu.health != GpuHealth.OK
    if is_faulted:
        mode, blocks = _("faulted"), [_fault(gpu, board)]
    else:
        mode = _mode(gpu, live)
        blocks = [_piece(board, piece, holders.get(piece.pk), viewer) for piece in live]
        if gpu.shared_threads:
            blocks = _stacked(blocks, live)
        elif gpu.busy:
            blocks = blocks or [_taken(board)]
        else:
            blocks += _gaps(board, live)
    if not takes_work(gpu.node):
        blocks = [_closed(block) for block in blocks]
    blocks = [block if block.href else _told_more(block, gpu) for block in blocks]
    held = sum(_compute(board, piece) for piece in live if piece.pk in holders)
    if gpu.shared_threads:
        held = math.ceil(Fraction(gpu.shared_threads * board.compute_slices, 100))
    return Row(
        gpu=gpu,
        y=TOP + ROW * nth,
        mini_y=MINI_ROW * nth,
        mode=mode,
        blocks=tuple(sorted(blocks, key=lambda block: block.start)),
        pips=tuple((PIPS_AT + PIP * i, i < held) for i in range(board.compute_slices)),
        compute=_used(gpu, held, board.compute_slices),
        is_faulted=is_faulted,
    )


def _used(gpu: Gpu, held: int, of: int) -> str:
    """How much compute is held, in words."""
    if gpu.shared_threads:
        return f"{gpu.shared_threads}{NBSP}%"
    return _("%(held)s of %(all)s") % {"held": held, "all": of}


def _told_more(block: Block, gpu: Gpu) -> Block:
    """What leads to no job leads to what there is to say of the place."""
    return replace(block, href=f"/cluster/{gpu.node.name}/?gpu={gpu.index}&at={block.start}#piece")


def _left(holder: Holder | None) -> str:
    """How long it is held yet, where that is known."""
    if holder is None or holder.until is None:
        return ""
    seconds = (holder.until - timezone.now()).total_seconds()
    return _("%(time)s left") % {"time": duration(seconds)} if seconds > 0 else _("ends now")


def _piece(board: Board, piece: Slice, holder: Holder | None, viewer: Viewer) -> Block:
    what = piece.profile or _("whole")
    cls, who = _look(piece, holder, viewer)
    name, left = holder.name if holder else "", _left(holder)
    seen = (who, name, left) if piece.size * 2 >= board.memory_slices else (who, name)
    told = f"{who} · {holder.project}" if holder and holder.project else who
    return Block(
        cls=cls,
        start=piece.start,
        size=piece.size,
        of=board.memory_slices,
        first=what.split(".")[0] if piece.size == 1 else what,
        second=" · ".join(filter(None, seen)) if piece.size > 1 else who,
        title=", ".join(filter(None, (what, who, name, left))),
        href=f"/jobs/{holder.job}/" if holder and holder.job else "",
        what=what,
        who=told,
        job=name,
        is_code=bool(piece.profile),
        until=left or {"carve": who, "idle": _("ready")}.get(cls, ""),
    )


def _mode(gpu: Gpu, live: list[Slice]) -> str:
    if gpu.shared_threads:
        return "MPS"
    return "MIG" if gpu.observed_mode == "mig" else _("whole")


def _stacked(blocks: list[Block], live: list[Slice]) -> list[Block]:
    """Shares side by side, in percent of the threads; they have no place on the GPU."""
    found, start = [], 0
    for block, share in zip(blocks, live, strict=True):
        size = memory(share.memory_mib)
        what = words_of_share(share.threads, size)
        said = replace(
            block,
            first=f"{share.threads}{NBSP}%" + f" + {size}" * (share.threads >= WIDE_SHARE),
            what=what,
            title=", ".join(filter(None, (what, block.who, block.job))),
        )
        found.append(replace(said, start=start, size=share.threads, of=100, is_share=True))
        start += share.threads
    if start < 100:
        found.append(_rest(start, is_ours=any(b.cls in ("mine", "team") for b in blocks)))
    return found


def _rest(start: int, *, is_ours: bool) -> Block:
    """What no share of a GPU has yet: only the project of the others may ask for it."""
    left = _("room for shares of the same project")
    rest = Block("free" if is_ours else "dead", start, 100 - start, of=100, is_share=True)
    first = _("Free") if is_ours else ""
    second = _("for your project") if is_ours else ""
    href = "/request/?amount=mps" if is_ours else ""
    return replace(rest, first=first, second=second, title=left, who=left, href=href)


def _closed(block: Block) -> Block:
    """Nobody can have what is free on a node that takes no new work."""
    if block.cls != "free":
        return block
    why = _("the node takes no new work")
    return replace(block, cls="dead", first="", second="", title=why, who=why, href="", until="")


def _taken(board: Board) -> Block:
    """A healthy GPU that something outside of Tessera uses."""
    of, who = board.memory_slices, _("a process of no job; not given out before it has ended")
    first = _("In use")
    return Block("other", 0, of, of, first=first, second=who, title=f"{first}: {who}", who=who)


def _look(piece: Slice, holder: Holder | None, viewer: Viewer) -> tuple[str, str]:
    """Fill says who, edge says what."""
    if piece.status in (SliceStatus.PLANNED, SliceStatus.CREATING) and piece.profile:
        return "carve", _("being carved")
    if piece.status == SliceStatus.DELETING:
        return "carve", _("being merged")
    if holder is None:
        return "idle", _("idle")
    if not holder.job:
        return "other", _("another project")
    if holder.owner == viewer.username:
        return "mine", holder.owner
    return ("team" if holder.project in viewer.projects else "other"), holder.owner


def _fault(gpu: Gpu, board: Board) -> Block:
    why = why_out(gpu)
    return Block(
        cls="fault",
        start=0,
        size=board.memory_slices,
        of=board.memory_slices,
        first=_("Out of service"),
        second=why,
        title=_("Out of service: %(why)s") % {"why": why},
        what=_("Out of service"),
        who=why,
    )


def _gaps(board: Board, live: list[Slice]) -> list[Block]:
    """The runs of free memory slices, and what fits there; dots where nothing can start."""
    taken = [Placement(piece.start, piece.size, piece.profile) for piece in live]
    if any(not place.profile for place in taken):
        return []
    covered = {i for place in taken for i in range(place.start, place.start + place.size)}
    found, start = [], 0
    while start < board.memory_slices:
        end = start
        while end < board.memory_slices and end not in covered:
            end += 1
        if end > start:
            found.append(_gap(board, taken, start, end - start))
        start = max(end, start + 1)
    return found


def _gap(board: Board, taken: list[Placement], start: int, size: int) -> Block:
    of = board.memory_slices
    fits = _fitting(board, taken, start, size)
    if not fits:
        nothing = _("no profile can start here")
        return Block("dead", start, size, of, title=nothing, who=_("no place"), until=nothing)
    return Block(
        cls="free",
        start=start,
        size=size,
        of=of,
        first=_("Free"),
        second=fits if size > 1 else "",
        title=_("Free: fits %(fits)s") % {"fits": fits},
        who=_("free"),
        until=_("fits %(fits)s") % {"fits": fits},
    )


def _fitting(board: Board, taken: list[Placement], start: int, size: int) -> str:
    """The largest that can be made in this gap; empty if nothing can."""
    if size == board.memory_slices:
        return _("a whole GPU, or any MIG layout") if board.supports_mig else _("a whole GPU")
    inside = [
        place
        for place in layouts(board).beside(taken).fits
        if start <= place.start and place.start + place.size <= start + size
    ]
    return max(inside, key=lambda place: place.size).profile if inside else ""


def _compute(board: Board, piece: Slice) -> int:
    profile = board.profile(piece.profile) if piece.profile else None
    return profile.compute_slices if profile else board.compute_slices
