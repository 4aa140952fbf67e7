"""The place where a request would run: its GPUs, with what stays beside it."""

from collections.abc import Sequence
from itertools import groupby

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.submission.planned_gpus import PERCENT, PlannedGpu, Span
from portal.web.place_drawing import Part, PlaceDrawing, draw_place
from portal.web.wording.labels import NBSP, gigabytes

WIDTH = 438
MAX_DRAWN = 8


def request_place(gpus: Sequence[PlannedGpu]) -> PlaceDrawing | None:
    """`gpus`: by node and index. None without a place."""
    if not gpus:
        return None
    drawn, left = gpus[:MAX_DRAWN], len(gpus) - MAX_DRAWN
    nodes = [
        (name, [(f"GPU {gpu.index}", _parts(gpu)) for gpu in of_node])
        for name, of_node in groupby(drawn, key=lambda gpu: gpu.node)
    ]
    more = ""
    if left > 0:
        more = ngettext("and %(n)s more GPU", "and %(n)s more GPUs", left) % {"n": f"{left:,}"}
    return draw_place(nodes, [_in_words(gpu) for gpu in drawn], width=WIDTH, more=more)


def _parts(gpu: PlannedGpu) -> list[Part]:
    own = [
        _part(gpu, span, "mine", label=_size_of(gpu, span), ink="on-mine", is_own=True)
        for span in gpu.planned
    ]
    others = [_part(gpu, span, "other" if span.is_held else "idle") for span in gpu.others]
    parts = [*own, *others, *(_part(gpu, span, "free") for span in _free(gpu))]
    return sorted(parts, key=lambda part: part.start)


def _part(
    gpu: PlannedGpu, span: Span, cls: str, *, label: str = "", ink: str = "q", is_own: bool = False
) -> Part:
    place, is_share = (span.start, span.size, gpu.slots), gpu.slots == PERCENT
    return Part(*place, cls, label, label, is_own, ink=ink, is_share=is_share)


def _free(gpu: PlannedGpu) -> list[Span]:
    """Slot by slot; of a shared GPU, all of its free threads together."""
    taken = [*gpu.planned, *gpu.others]
    covered = {slot for span in taken for slot in range(span.start, span.start + span.size)}
    free = [slot for slot in range(gpu.slots) if slot not in covered]
    if gpu.slots == PERCENT:
        return [Span(free[0], len(free))] if free else []
    return [Span(slot, 1) for slot in free]


def _size_of(gpu: PlannedGpu, span: Span) -> str:
    if span.profile:
        return gigabytes(span.profile)
    return f"{span.threads}{NBSP}%" if span.threads else _("whole GPU")


def _in_words(gpu: PlannedGpu) -> str:
    own = ", ".join(_size_of(gpu, span) for span in gpu.planned)
    words = {"gpu": f"{gpu.node}, GPU {gpu.index}", "own": own}
    held = sum(span.size for span in gpu.others if span.is_held)
    if not held:
        return _("%(gpu)s: %(own)s for this job, nothing beside it") % words
    words["held"] = f"{held}{NBSP}%" if gpu.slots == PERCENT else f"{held}/{gpu.slots}"
    return _("%(gpu)s: %(own)s for this job, %(held)s of it in use by other jobs") % words
