"""The place where a request would run, drawn: a row for each GPU, with what stays beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.submission.planned_gpus import PERCENT, PlannedGpu, Span
from portal.web.wording.labels import NBSP, gigabytes

WIDTH, GAP, ROW_HEIGHT, LABEL_HEIGHT, CELL_HEIGHT = 438, 2, 54, 18, 28
MAX_DRAWN = 8


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A rectangle with a word, if that has room."""

    x: float
    width: float
    cls: str
    word: str = ""


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One GPU."""

    label: str
    y: int
    cells: list[PlannedCell]


@dataclass(frozen=True, slots=True)
class PlaceDrawing:
    """The drawing, and the same in words."""

    rows: list[PlannedRow]
    sentence: str
    more: str
    """How many GPUs are not drawn, in words; empty if all are."""

    @property
    def height(self) -> int:
        return len(self.rows) * ROW_HEIGHT


def place_drawing(gpus: Sequence[PlannedGpu]) -> PlaceDrawing | None:
    """None without a place."""
    if not gpus:
        return None
    drawn, left = gpus[:MAX_DRAWN], len(gpus) - MAX_DRAWN
    rows = [
        PlannedRow(_gpu_name(gpu), index * ROW_HEIGHT, _cells(gpu))
        for index, gpu in enumerate(drawn)
    ]
    more = ""
    if left > 0:
        more = ngettext("and %(n)s more GPU", "and %(n)s more GPUs", left) % {"n": f"{left:,}"}
    sentences = [_in_words(gpu) for gpu in drawn]
    return PlaceDrawing(rows, "; ".join([*sentences, more] if more else sentences), more)


def _gpu_name(gpu: PlannedGpu) -> str:
    return f"{gpu.node}, GPU {gpu.index}"


def _cells(gpu: PlannedGpu) -> list[PlannedCell]:
    taken = [*((span, True) for span in gpu.planned), *((span, False) for span in gpu.others)]
    covered = {slot for span, _own in taken for slot in range(span.start, span.start + span.size)}
    cells = [_cell(gpu, span, is_own) for span, is_own in taken]
    if gpu.slots != PERCENT:
        free = (slot for slot in range(gpu.slots) if slot not in covered)
        cells += [_box(gpu, Span(slot, 1), "free") for slot in free]
    elif len(covered) < PERCENT:
        start = max(covered, default=-1) + 1
        cells.append(_box(gpu, Span(start, PERCENT - start), "free"))
    return sorted(cells, key=lambda cell: cell.x)


def _cell(gpu: PlannedGpu, span: Span, is_own: bool) -> PlannedCell:
    if is_own:
        word = _size_of(gpu, span) if span.size * 8 >= gpu.slots else ""
        return _box(gpu, span, "mine", word)
    return _box(gpu, span, "other" if span.is_held else "idle")


def _box(gpu: PlannedGpu, span: Span, cls: str, word: str = "") -> PlannedCell:
    pitch = WIDTH / gpu.slots
    gap = GAP if pitch > GAP * 2 else 0
    return PlannedCell(
        round(span.start * pitch, 1), round(max(1, span.size * pitch - gap), 1), cls, word
    )


def _size_of(gpu: PlannedGpu, span: Span) -> str:
    if span.profile:
        return gigabytes(span.profile)
    return f"{span.size}{NBSP}%" if gpu.slots == PERCENT else _("whole GPU")


def _in_words(gpu: PlannedGpu) -> str:
    own = ", ".join(_size_of(gpu, span) for span in gpu.planned)
    words = {"gpu": _gpu_name(gpu), "own": own}
    held = sum(span.size for span in gpu.others if span.is_held)
    if not held:
        return _("%(gpu)s: %(own)s for this job, nothing beside it") % words
    words["held"] = f"{held}{NBSP}%" if gpu.slots == PERCENT else f"{held}/{gpu.slots}"
    return _("%(gpu)s: %(own)s for this job, %(held)s of it in use by other jobs") % words
