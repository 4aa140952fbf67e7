"""Usage as CSV: one line for each allocation in the window, so that readers can check the sums."""

import csv
import io
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection
from django.db.models import Q, QuerySet

from portal.allocations.models import Allocation
from portal.allocations.selectors import gpu_hours
from portal.usage.ledger import UsageWindow, allocation_seconds, overlapping
from portal.usage.selectors import board_model

CHUNK_ROWS = 500
COLUMNS = (
    "job",
    "name",
    "project",
    "user",
    "node",
    "gpu",
    "model",
    "kind",
    "profile",
    "units",
    "from",
    "to",
    "seconds",
    "unit_seconds",
    "gpu_hours",
)
FIELDS = (
    "id",
    "bound_at",
    "released_at",
    "units",
    "replica__attempt__job_id",
    "replica__attempt__job__name",
    "project__slug",
    "user__username",
    "slice__gpu__node__name",
    "slice__gpu__index",
    "slice__gpu__board",
    "slice__kind",
    "slice__profile",
)
# A spreadsheet reads a cell that begins with one of these as a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def escape_formula(cell: object) -> str:
    """The cell as text that no spreadsheet evaluates."""
    text = str(cell)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def csv_chunks(
    rows: QuerySet[Allocation], window: UsageWindow, zone: tzinfo = UTC
) -> Iterator[str]:
    """The file in chunks of CHUNK_ROWS lines, one query each, ordered by when devices were bound.

    An allocation that ends meanwhile is still counted up to the window's `now`.
    """
    yield _written([COLUMNS])
    last: tuple[datetime, Any] | None = None
    found = overlapping(rows, window).order_by("bound_at", "id")
    while chunk := _chunk(found, last):
        yield _written(_cells(row, window, zone) for row in chunk)
        last = (chunk[-1][1], chunk[-1][0])


async def csv_chunks_async(
    rows: QuerySet[Allocation], window: UsageWindow, zone: tzinfo = UTC
) -> AsyncIterator[str]:
    """The same for a stream. No database connection is held between chunks."""
    chunks = csv_chunks(rows, window, zone)
    next_chunk = sync_to_async(_next, thread_sensitive=False)
    while chunk := await next_chunk(chunks):
        yield chunk


def _next(chunks: Iterator[str]) -> str:
    """Empty after the last one."""
    try:
        return next(chunks, "")
    finally:
        connection.close()


def _chunk(rows: QuerySet[Allocation], last: tuple[datetime, Any] | None) -> list[tuple[Any, ...]]:
    if last is not None:
        at, pk = last
        rows = rows.filter(Q(bound_at__gt=at) | Q(bound_at=at, id__gt=pk))
    return list(rows.values_list(*FIELDS)[:CHUNK_ROWS])


def _cells(row: tuple[Any, ...], window: UsageWindow, zone: tzinfo) -> list[object]:
    _, bound_at, released_at, units, job, name, project, user, node, gpu, board, kind, profile = row
    start, until = window.start, window.until
    seconds = allocation_seconds(bound_at, released_at, start, until)
    ends = min(released_at, until) if released_at else until
    return [
        f"J-{job}",
        name,
        project,
        user,
        node,
        gpu,
        board_model(board),
        kind,
        profile,
        units,
        max(bound_at, start).astimezone(zone).isoformat(timespec="seconds"),
        ends.astimezone(zone).isoformat(timespec="seconds"),
        seconds,
        units * seconds,
        gpu_hours(units * seconds),
    ]


def _written(rows: Any) -> str:
    page = io.StringIO()
    csv.writer(page, lineterminator="\r\n").writerows(
        [escape_formula(cell) for cell in row] for row in rows
    )
    return page.getvalue()
