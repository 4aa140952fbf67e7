"""New points of a series merged into those that are kept. Pure.

What is kept is bounded and evenly spaced by step, however many points arrive: when there are too
many, the least distance between two kept steps grows, and the series is thinned to half.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_KEPT_POINTS = 400

Point = tuple[int, float]


@dataclass(frozen=True, slots=True)
class KeptPoints:
    """By step, at least `spacing` steps apart."""

    points: tuple[Point, ...] = ()
    spacing: int = 1


def merged_points(series: KeptPoints, new: Sequence[Point], *, begins_anew: bool) -> KeptPoints:
    """The newest value of a step counts. `begins_anew`: another attempt, or another file, reports
    from here on: what it reports replaces all that was reported from its first step on."""
    before: Iterable[Point] = series.points
    if begins_anew and new:
        first = min(step for step, _ in new)
        before = [point for point in before if point[0] < first]
    by_step = dict(before) | dict(new)
    points = _spaced(sorted(by_step.items()), series.spacing)
    spacing = series.spacing
    if len(points) > MAX_KEPT_POINTS:
        span = points[-1][0] - points[0][0]
        spacing = max(2 * spacing, -(-2 * span // MAX_KEPT_POINTS))
        points = _spaced(points, spacing)
    return KeptPoints(tuple(points), spacing)


def _spaced(points: Iterable[Point], spacing: int) -> list[Point]:
    kept: list[Point] = []
    for point in points:
        if not kept or point[0] - kept[-1][0] >= spacing:
            kept.append(point)
    return kept
