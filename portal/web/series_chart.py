"""Series of values over steps as the polylines of an SVG chart. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 320, 96
# Lines that one chart tells apart, by colour and by dashes.
MAX_LINES = 6

Point = tuple[int, float]


@dataclass(frozen=True, slots=True)
class DrawnSeries:
    """Coordinates of one line in a WIDTH by HEIGHT drawing."""

    label: str
    number: int
    """From 1 on; its style."""
    line: str
    """The points of its polyline; empty for a single one."""
    dot: tuple[float, float]
    """Its last point."""
    last: str


@dataclass(frozen=True, slots=True)
class SeriesChart:
    drawn: tuple[DrawnSeries, ...]
    first_step: int
    last_step: int
    low: str
    high: str


def series_chart(series: Sequence[tuple[str, Sequence[Point]]]) -> SeriesChart | None:
    """Of labelled points by step; None without any. Only the first MAX_LINES are drawn. A series
    without points keeps its number, so that the others keep their styles."""
    series = series[:MAX_LINES]
    steps = [step for _, points in series for step, _ in points]
    if not steps:
        return None
    values = [value for _, points in series for _, value in points]
    first, last, low, high = min(steps), max(steps), min(values), max(values)

    def place(point: Point) -> tuple[float, float]:
        x = WIDTH * (point[0] - first) / (last - first) if last > first else WIDTH / 2
        # Divided before it is subtracted: the span of two floats may be too large for one.
        share = (point[1] / 2 - low / 2) / (high / 2 - low / 2) if high / 2 > low / 2 else 0.5
        return round(x, 1), round(HEIGHT - HEIGHT * share, 1)

    drawn = []
    for number, (label, points) in enumerate(series, start=1):
        if not points:
            continue
        places = [place(point) for point in points]
        line = " ".join(f"{x},{y}" for x, y in places) if len(places) > 1 else ""
        drawn.append(DrawnSeries(label, number, line, places[-1], metric_text(points[-1][1])))
    return SeriesChart(tuple(drawn), first, last, metric_text(low), metric_text(high))


def metric_text(value: float) -> str:
    """A value in few digits: whole numbers whole, others with four."""
    if abs(value) < 1e9 and value == int(value):
        return f"{int(value):,}"
    return f"{value:.4g}"
