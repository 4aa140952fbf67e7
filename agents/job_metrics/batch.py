"""What was read of one file and is not sent yet: points, thinned so that they stay few. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from agents.contract.job_metrics import (
    MAX_BATCH_POINTS,
    MAX_METRIC_NAMES,
    MAX_SERIES_POINTS,
    MetricsBatch,
    SeriesPoints,
    SkippedCount,
    SkipReason,
)
from agents.job_metrics.lines import MetricPoint


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A place in a metrics file, as `MetricsBatch` names it."""

    part: int = 0
    offset: int = 0
    mark: int = 0


@dataclass
class NewSeries:
    """New points of one name. Every `stride`-th of them is kept, and the last."""

    points: list[MetricPoint] = field(default_factory=list)
    last: MetricPoint | None = None
    count: int = 0
    stride: int = 1
    low: float = float("inf")
    high: float = float("-inf")

    def add(self, point: MetricPoint) -> None:
        self.low, self.high = min(self.low, point.value), max(self.high, point.value)
        if self.count % self.stride == 0:
            self.points.append(point)
        self.last = point
        self.count += 1
        # One place is left for the last point.
        if len(self.points) >= MAX_SERIES_POINTS:
            self.thin()

    def thin(self) -> None:
        """Keep every second point."""
        self.points = self.points[::2]
        self.stride *= 2

    def on_the_wire(self, name: str) -> SeriesPoints:
        points = self.points
        if self.last is not None and points[-1] is not self.last:
            points = [*points, self.last]
        return SeriesPoints(
            name,
            self.count,
            repr(self.low),
            repr(self.high),
            tuple(point.step for point in points),
            tuple(repr(point.value) for point in points),
        )


@dataclass
class NewMetrics:
    """Of one replica, from `start` on. Once `is_sent`, it stays as it is: whether the portal
    has it is known by its end."""

    replica: str
    start: FilePosition
    end: FilePosition
    series: dict[str, NewSeries] = field(default_factory=dict)
    skipped: Counter[SkipReason] = field(default_factory=Counter)
    is_sent: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.series and not self.skipped and self.start == self.end

    @property
    def point_count(self) -> int:
        return sum(len(series.points) + 1 for series in self.series.values())

    def add(self, points: Iterable[MetricPoint], skipped: Iterable[SkipReason]) -> None:
        self.skipped.update(skipped)
        for point in points:
            series = self.series.get(point.name)
            if series is None:
                if len(self.series) >= MAX_METRIC_NAMES:
                    self.skipped[SkipReason.TOO_MANY_NAMES] += 1
                    continue
                series = self.series[point.name] = NewSeries()
            series.add(point)
        while self.point_count > MAX_BATCH_POINTS:
            max(self.series.values(), key=lambda series: len(series.points)).thin()

    def on_the_wire(self) -> MetricsBatch:
        return MetricsBatch(
            self.replica,
            self.end.part,
            self.start.offset if self.start.part == self.end.part else 0,
            self.end.offset,
            self.end.mark,
            tuple(series.on_the_wire(name) for name, series in self.series.items()),
            tuple(SkippedCount(why, count) for why, count in sorted(self.skipped.items())),
        )
