"""What is on GPUs that are carved or shared, one short text a GPU: the database writes it, and the
same few layouts come again and again, so that each is worked out once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db.models import (
    Aggregate,
    Case,
    Exists,
    OuterRef,
    QuerySet,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Concat

from agents.contract.boards import Board, known_boards
from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from portal.inventory.models import Slice
from portal.jobs.models import Allocation
from scheduler.core.model.states import SliceStatus

MAKING = (SliceStatus.PLANNED, SliceStatus.CREATING)


class _Joined(Aggregate):
    """Texts of many rows as one, in no order."""

    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, ';')"
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return super().as_sql(compiler, connection, function="GROUP_CONCAT", **context)


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """What the slices of one GPU come to. `is_open`: none is held. `fits` is empty where it is
    shared, or an idle slice covers it."""

    is_unallocated: bool
    idle_count: int
    idle_profiles: tuple[str, ...]
    carvable: Mapping[str, int]


def gpu_layout_texts(slices: QuerySet[Slice], *columns: str) -> Iterable[tuple[Any, ...]]:
    """GPUs with live slices of these on them that are not one held whole: the columns of each, and
    as the last one its slices as a text for `on_gpu`. One query."""
    held = Exists(Allocation.objects.live().filter(slice=OuterRef("pk")))
    rows = slices.live().annotate(held=held)
    rows = rows.exclude(kind=SliceKind.GPU, held=True).order_by()
    told = Concat(
        *("kind", Value(","), "profile", Value(","), Cast("start", TextField()), Value(",")),
        *(Cast("size", TextField()), Value(","), "status", Value(",")),
        Case(When(held=True, then=Value("h")), default=Value("")),
        output_field=TextField(),
    )
    return rows.values("gpu_id").annotate(told=_Joined(told)).values_list(*columns, "told")


def parse_gpu_layout(board: Board, text: str) -> GpuLayout:
    """What a text of `carved_gpus` says."""
    known = known_boards().get(board.key) is board
    return _known(board.key, text) if known else _read(board, text)


@lru_cache(16_384)
def _known(key: str, text: str) -> GpuLayout:
    return _read(known_boards()[key], text)


def _read(board: Board, text: str) -> GpuLayout:
    places, made, idle, open_, divided = [], [], 0, True, True
    for piece in text.split(";"):
        kind, profile, start, size, status, held = piece.split(",")
        is_making = status in MAKING and profile
        if held:
            open_ = False
        else:
            made.append(profile)
            idle += not is_making and status != SliceStatus.DELETING
        divided = divided and bool(profile) and kind != SliceKind.MPS
        places.append(Placement(int(start), int(size), profile))
    most = layout_table(board).free_beside(places).max_count if divided else {}
    return GpuLayout(open_, idle, tuple(made) if divided else (), most)
