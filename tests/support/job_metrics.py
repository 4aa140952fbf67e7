"""Metrics of replicas, recorded as if an agent had read them from a file."""

from __future__ import annotations

from agents.contract.job_metrics import MetricsBatch, SeriesPoints, SkippedCount
from portal.job_metrics.models import MetricsPosition
from portal.job_metrics.services import metrics_record
from portal.jobs.models import Replica

MARK = 7


def series_points(name: str, *pairs: tuple[int, float]) -> SeriesPoints:
    values = [float(value) for _, value in pairs]
    steps = tuple(step for step, _ in pairs)
    return SeriesPoints(
        name, len(pairs), repr(min(values)), repr(max(values)), steps, tuple(map(repr, values))
    )


def metrics_report(
    replica: Replica, *series: SeriesPoints, skipped: tuple[SkippedCount, ...] = ()
) -> None:
    """The next points of its file."""
    position = MetricsPosition.objects.filter(replica=replica).first() or MetricsPosition()
    end = position.offset + 10
    batch = MetricsBatch(
        str(replica.pk), position.part, position.offset, end, MARK, series, skipped
    )
    (result,) = metrics_record(replicas={str(replica.pk): replica}, batches=[batch])
    assert not result.code
