"""Draws GPUs before and after a previewed planning pass, as rows of the cluster map."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.inventory.boards import board_of
from portal.inventory.models import Gpu
from portal.planning.partition_preview import GpuChange, GpuPart
from portal.web.cluster.cell import Cell
from portal.web.wording.labels import NBSP
from portal.web.wording.messages import translated

ROW = 50


@dataclass(frozen=True, slots=True)
class GpuChangeDrawing:
    """A GPU drawn twice: as it is and as it would be."""

    node: str
    index: int
    mode: str
    before: tuple[Cell, ...]
    after: tuple[Cell, ...]
    # Each step with its reason.
    steps: tuple[str, ...]

    @property
    def sentence(self) -> str:
        then = "; ".join(block.title for block in self.after)
        return _("%(node)s GPU %(index)s afterwards: %(then)s") % {
            "node": self.node,
            "index": self.index,
            "then": then,
        }


def draw_changes(changes: Iterable[GpuChange]) -> list[GpuChangeDrawing]:
    """One query for the boards."""
    found = list(changes)
    rows = {gpu.uuid: gpu for gpu in Gpu.objects.filter(uuid__in=[c.uuid for c in found])}
    return [_drawn(one, board_of(rows[one.uuid]).memory_slices) for one in found]


def _drawn(change: GpuChange, slots: int) -> GpuChangeDrawing:
    old = {(p.profile, p.start, p.size, p.threads) for p in change.before}
    return GpuChangeDrawing(
        node=change.node,
        index=change.index,
        mode=str(change.mode),
        before=_row(change.before, slots, old),
        after=_row(change.after, slots, old),
        steps=tuple(translated(step.sentence) for step in change.steps),
    )


def _row(
    parts: Iterable[GpuPart], slots: int, old: set[tuple[str, int, int, int]]
) -> tuple[Cell, ...]:
    blocks: list[Cell] = []
    at = threads = 0
    for part in parts:
        is_new = (part.profile, part.start, part.size, part.threads) not in old
        if part.threads:
            blocks.append(_block(part, threads, part.threads, 100, is_new))
            threads += part.threads
            at = slots
            continue
        if part.start > at:
            blocks.append(_free(at, part.start - at, slots))
        blocks.append(_block(part, part.start, part.size, slots, is_new))
        at = part.start + part.size
    if at < slots:
        blocks.append(_free(at, slots - at, slots))
    return tuple(blocks)


def _block(part: GpuPart, start: int, size: int, of: int, is_new: bool) -> Cell:
    words = part.profile or (f"MPS {part.threads}{NBSP}%" if part.threads else _("whole GPU"))
    held = _("held") if part.allocated else _("idle")
    cls = "plan" if is_new else ("other" if part.allocated else "idle")
    second = _("new") if is_new else held
    title = f"{words}, {second}"
    short = part.profile.partition(".")[0] if size == 1 else words
    return Cell(cls, start, size, of, short, second, title, is_share=bool(part.threads))


def _free(start: int, size: int, of: int) -> Cell:
    return Cell("free", start, size, of, _("free"), title=_("free"))
