"""Draws GPUs before and after a previewed planning pass, as rows of the cluster map."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.inventory.boards import board_of
from portal.inventory.models import Gpu
from portal.planning.partition_preview import GpuChange, GpuPart
from portal.web.cluster.cell import Cell
from portal.web.wording.labels import NBSP
from portal.web.wording.messages import message_text


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
        then = "; ".join(cell.title for cell in self.after)
        return _("%(node)s GPU %(index)s after the change: %(then)s") % {
            "node": self.node,
            "index": self.index,
            "then": then,
        }


def draw_changes(changes: Iterable[GpuChange]) -> list[GpuChangeDrawing]:
    """Makes one query, for the boards."""
    changes = list(changes)
    gpus = {gpu.uuid: gpu for gpu in Gpu.objects.filter(uuid__in=[c.uuid for c in changes])}
    return [_draw(change, board_of(gpus[change.uuid]).memory_slices) for change in changes]


def _draw(change: GpuChange, slots: int) -> GpuChangeDrawing:
    old = {(p.profile, p.start, p.size, p.threads) for p in change.before}
    return GpuChangeDrawing(
        node=change.node,
        index=change.index,
        mode=str(change.mode),
        before=_row(change.before, slots, old),
        after=_row(change.after, slots, old),
        steps=tuple(message_text(step.message) for step in change.steps),
    )


def _row(
    parts: Iterable[GpuPart], slots: int, old: set[tuple[str, int, int, int]]
) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    at = threads = 0
    for part in parts:
        is_new = (part.profile, part.start, part.size, part.threads) not in old
        if part.threads:
            cells.append(_cell(part, threads, part.threads, 100, is_new))
            threads += part.threads
            at = slots
            continue
        if part.start > at:
            cells.append(_free(at, part.start - at, slots))
        cells.append(_cell(part, part.start, part.size, slots, is_new))
        at = part.start + part.size
    if at < slots:
        cells.append(_free(at, slots - at, slots))
    return tuple(cells)


def _cell(part: GpuPart, start: int, size: int, slots: int, is_new: bool) -> Cell:
    device = part.profile or (f"MPS {part.threads}{NBSP}%" if part.threads else _("whole GPU"))
    allocated = _("held") if part.allocated else _("idle")
    cls = "plan" if is_new else ("other" if part.allocated else "idle")
    state = _("new") if is_new else allocated
    label = part.profile.partition(".")[0] if size == 1 else device
    title = f"{device}, {state}"
    return Cell(cls, start, size, slots, label, state, title, is_share=bool(part.threads))


def _free(start: int, size: int, slots: int) -> Cell:
    return Cell("free", start, size, slots, _("free"), title=_("free"))
