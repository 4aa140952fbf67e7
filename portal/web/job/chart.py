"""Samples over time as the polylines of an SVG chart. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise

WIDTH, HEIGHT = 320, 72
# Of a longer series the highest of neighbouring points is drawn.
MAX_POINTS = 240


@dataclass(frozen=True, slots=True)
class Point:
    """One sample."""

    minute: int
    """Minutes since the epoch."""
    value: int | None
    """None: not measured."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Coordinates of a WIDTH by HEIGHT drawing."""

    lines: tuple[str, ...]
    """The points of each polyline; a gap means that nothing was measured."""
    dots: tuple[tuple[float, float], ...]
    """Points without a neighbour."""
    peak: int | None
    """None if nothing was measured."""
    latest: int | None
    """None if the last point was not measured."""
    start: datetime
    end: datetime
    top: int
    """The value at the upper edge."""
    count: int
    """How many points were measured."""


def chart(points: Sequence[Point], *, top: int, start: datetime, end: datetime) -> Chart:
    """`top`: the value at the upper edge. Points are in the order of their minutes."""
    measured = [point for point in points if point.value is not None]
    lines, dots = [], []
    for run in _runs(_thinned(points)):
        places = [_place(point, points, top) for point in run]
        if len(places) == 1:
            dots.append(places[0])
        else:
            lines.append(" ".join(f"{x},{y}" for x, y in places))
    return Chart(
        lines=tuple(lines),
        dots=tuple(dots),
        peak=max((p.value or 0 for p in measured), default=None),
        latest=points[-1].value if points else None,
        start=start,
        end=end,
        top=top,
        count=len(measured),
    )


def _thinned(points: Sequence[Point]) -> list[Point]:
    step = -(-len(points) // MAX_POINTS) or 1
    groups = (points[i : i + step] for i in range(0, len(points), step))
    return [max(group, key=lambda p: -1 if p.value is None else p.value) for group in groups]


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """The measured points, split at gaps."""
    step = min((b.minute - a.minute for a, b in pairwise(points)), default=1)
    part = 0
    keyed = []
    for before, point in zip([None, *points], points, strict=False):
        if before is None or point.minute - before.minute > 3 * max(1, step):
            part += 1
        if point.value is None:
            part += 1
        else:
            keyed.append((part, point))
    for _, run in groupby(keyed, key=lambda k: k[0]):
        yield [point for _, point in run]


def _place(point: Point, points: Sequence[Point], top: int) -> tuple[float, float]:
    first, last = points[0].minute, points[-1].minute
    x = WIDTH * (point.minute - first) / max(1, last - first)
    y = HEIGHT - HEIGHT * min(point.value or 0, top) / max(1, top)
    return round(x, 1), round(y, 1)
