"""Draws a gang on neighbouring whole GPUs as one cell with joints."""

from dataclasses import replace

from portal.web.cluster.cell import Cell

Cells = tuple[Cell, ...]


def merge_gangs(rows: list[Cells]) -> list[Cells]:
    """Merge each run of whole GPUs held by one known job into a single cell of the first row.

    `rows` are the cells of each GPU, in the order drawn.
    """
    merged = list(rows)
    first = 0
    while first < len(rows):
        end = first + 1
        while end < len(rows) and _same_gang(rows[first], rows[end]):
            end += 1
        if end > first + 1:
            merged[first] = (replace(rows[first][0], rows=end - first),)
            merged[first + 1 : end] = [()] * (end - first - 1)
        first = end
    return merged


def _same_gang(upper: Cells, lower: Cells) -> bool:
    if len(upper) != 1 or len(lower) != 1:
        return False
    a, b = upper[0], lower[0]
    return a.is_held and bool(a.job) and a.size == a.slots and (a.href, b.size) == (b.href, b.slots)
