"""The slices on each partitioned or shared GPU, as one short text from the database.

The same few layouts recur on many GPUs, so each text is parsed once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db.models import (
    Aggregate,
    Case,
    Exists,
    OuterRef,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Concat

from agents.contract.boards import Board, known_boards
from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from portal.allocations.models import Allocation
from portal.inventory.models import SliceQuerySet
from scheduler.core.model.states import SliceStatus

CARVING = (SliceStatus.PLANNED, SliceStatus.CREATING)


class _Joined(Aggregate):
    """Joins the texts of many rows, in no order."""

    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, ';')"
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return super().as_sql(compiler, connection, function="GROUP_CONCAT", **context)


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """The slices of one GPU, summed up."""

    # No slice is allocated.
    is_unallocated: bool
    idle_count: int
    idle_profiles: tuple[str, ...]
    # How many more slices fit, by profile; empty on a GPU that is shared or whole.
    carvable: Mapping[str, int]


def gpu_layout_texts(slices: SliceQuerySet, *columns: str) -> Iterable[tuple[Any, ...]]:
    """The `columns` of each GPU with live slices among `slices`, and a text for `parse_gpu_layout`.

    GPUs that are allocated whole are left out. One query.
    """
    is_allocated = Exists(Allocation.objects.live().filter(slice=OuterRef("pk")))
    rows = slices.live().annotate(is_allocated=is_allocated)
    rows = rows.exclude(kind=SliceKind.GPU, is_allocated=True).order_by()
    text = Concat(
        *("kind", Value(","), "profile", Value(","), Cast("start", TextField()), Value(",")),
        *(Cast("size", TextField()), Value(","), "status", Value(",")),
        Case(When(is_allocated=True, then=Value("a")), default=Value("")),
        output_field=TextField(),
    )
    return rows.values("gpu_id").annotate(text=_Joined(text)).values_list(*columns, "text")


def parse_gpu_layout(board: Board, text: str) -> GpuLayout:
    """Parse a text of `gpu_layout_texts`."""
    known = known_boards().get(board.key) is board
    return _known(board.key, text) if known else _read(board, text)


@lru_cache(16_384)
def _known(key: str, text: str) -> GpuLayout:
    return _read(known_boards()[key], text)


def _read(board: Board, text: str) -> GpuLayout:
    placements, idle_profiles, idle_count = [], [], 0
    is_unallocated, is_partitioned = True, True
    for part in text.split(";"):
        kind, profile, start, size, status, allocated = part.split(",")
        is_being_carved = status in CARVING and profile
        if allocated:
            is_unallocated = False
        else:
            idle_profiles.append(profile)
            idle_count += not is_being_carved and status != SliceStatus.DELETING
        is_partitioned = is_partitioned and bool(profile) and kind != SliceKind.MPS
        placements.append(Placement(int(start), int(size), profile))
    carvable = layout_table(board).free_beside(placements).max_count if is_partitioned else {}
    profiles = tuple(idle_profiles) if is_partitioned else ()
    return GpuLayout(is_unallocated, idle_count, profiles, carvable)
