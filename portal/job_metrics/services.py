"""Batches of new points, as agents send them, written into the series of their jobs."""

from collections.abc import Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TypeAlias
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.contract.errors import ContractErrorCode
from agents.contract.job_metrics import MetricsBatch, MetricsResult, SeriesPoints, SkipReason
from portal.database.row_writes import rows_update
from portal.job_metrics.merging import KeptPoints, merged_points
from portal.job_metrics.models import MetricSeries, MetricsPosition
from portal.jobs.models import Replica
from portal.live.bell import ring

# Series of one job, over all its ranks.
MAX_JOB_SERIES = 1_000
_CHANGED = (
    *("attempt", "part", "count", "last", "last_step", "low", "high"),
    *("points", "spacing", "updated_at"),
)

_MOVED = ("part", "offset", "mark", "log_offset", "skipped", "updated_at")


def metrics_record(
    *, replicas: Mapping[str, Replica], batches: Sequence[MetricsBatch], from_logs: bool = False
) -> list[MetricsResult]:
    """Take each batch that goes on where the file of its replica has arrived. One transaction.

    `replicas`: those of the calling node with their attempts, by the name that it uses.
    `from_logs`: the batches are of their logs.
    """
    results = dict[str, MetricsResult]()
    with transaction.atomic():
        positions = _positions(list(replicas.values()))
        fresh = list[tuple[Replica, MetricsBatch]]()
        for batch in batches:
            replica = replicas.get(batch.replica)
            if replica is None:
                results[batch.replica] = _unknown(batch)
                continue
            position = positions[replica.pk]
            is_new = (_is_after if from_logs else _goes_on)(position, batch)
            if is_new:
                _advance(position, batch, from_logs=from_logs)
                fresh.append((replica, batch))
            results[batch.replica] = _result(position, batch, is_new=is_new, from_logs=from_logs)
        left_out = _series_write(fresh)
        for key, count in left_out.items():
            _count_skipped(positions[key], SkipReason.TOO_MANY_NAMES, count)
        changed = [positions[replica.pk] for replica, _ in fresh]
        rows_update(MetricsPosition, changed, _MOVED)
        for job in {replica.attempt.job_id for replica, _ in fresh}:
            ring(f"job:{job}")
    return [results[batch.replica] for batch in batches]


def _unknown(batch: MetricsBatch) -> MetricsResult:
    sentence = "this node has no such replica: skip its metrics"
    code = str(ContractErrorCode.REPLICA_UNKNOWN)
    return MetricsResult(batch.replica, code=code, sentence=sentence)


def _result(
    position: MetricsPosition, batch: MetricsBatch, *, is_new: bool, from_logs: bool
) -> MetricsResult:
    place = (position.part, position.offset, position.mark)
    sentence = f"the file goes on at {position.offset} of part {position.part}"
    if from_logs:
        place = (0, position.log_offset, 0)
        sentence = f"the log is known up to {position.log_offset}"
    if is_new:
        return MetricsResult(batch.replica, *place)
    return MetricsResult(batch.replica, *place, str(ContractErrorCode.OFFSET_MISMATCH), sentence)


def _positions(replicas: Sequence[Replica]) -> dict[UUID, MetricsPosition]:
    """Locked, by replica."""
    rows = MetricsPosition.objects.filter(replica__in=replicas)
    absent = {row.pk for row in replicas} - set(rows.values_list("pk", flat=True))
    if absent:
        new = [MetricsPosition(replica_id=pk) for pk in sorted(absent)]
        MetricsPosition.objects.bulk_create(new, ignore_conflicts=True)
    return {row.replica_id: row for row in rows.lock_rows()}


def _goes_on(position: MetricsPosition, batch: MetricsBatch) -> bool:
    if batch.part == position.part + 1:
        return batch.offset == 0
    return (batch.part, batch.offset) == (position.part, position.offset)


def _is_after(position: MetricsPosition, batch: MetricsBatch) -> bool:
    return batch.offset >= position.log_offset


def _advance(position: MetricsPosition, batch: MetricsBatch, *, from_logs: bool) -> None:
    if from_logs:
        position.log_offset = batch.end
    else:
        position.part, position.offset, position.mark = batch.part, batch.end, batch.mark
    position.updated_at = timezone.now()
    for line in batch.skipped:
        _count_skipped(position, line.why, line.count)


def _count_skipped(position: MetricsPosition, why: SkipReason, count: int) -> None:
    position.skipped = position.skipped | {why: position.skipped.get(why, 0) + count}


def _series_write(fresh: Sequence[tuple[Replica, MetricsBatch]]) -> dict[UUID, int]:
    """Returns how many points were left out of each replica, as its job has too many series."""
    changed, left_out = list[MetricSeries](), dict[UUID, int]()
    rows = _series_rows(fresh)
    for replica, batch in fresh:
        for points in batch.series:
            row = rows.get(_key(replica, points))
            if row is None:
                left_out[replica.pk] = left_out.get(replica.pk, 0) + points.count
            elif row.attempt <= replica.attempt.number:
                _merge(row, replica, batch.part, points)
                changed.append(row)
    rows_update(MetricSeries, changed, _CHANGED)
    return left_out


_SeriesKey: TypeAlias = tuple[int, int, str]


def _key(replica: Replica, points: SeriesPoints) -> _SeriesKey:
    """Of its row: job, rank and name."""
    return replica.attempt.job_id, replica.rank, points.name


def _series_rows(
    fresh: Sequence[tuple[Replica, MetricsBatch]],
) -> dict[_SeriesKey, MetricSeries]:
    """Locked. Without those that would be too many for their job.

    The nodes of two attempts may report the same new series at once, so rows are added empty, and
    read again: whoever comes second finds the other's.
    """
    keys = sorted({_key(replica, points) for replica, batch in fresh for points in batch.series})
    if not keys:
        return {}
    jobs, ranks, names = (set(column) for column in zip(*keys, strict=True))
    rows = MetricSeries.objects.filter(job__in=jobs, rank__in=ranks, name__in=names)
    known = set(rows.values_list("job", "rank", "name"))
    new = list[MetricSeries]()
    for job, absent in groupby((key for key in keys if key not in known), key=itemgetter(0)):
        room = MAX_JOB_SERIES - MetricSeries.objects.filter(job=job).count()
        new += [_empty_row(*key) for key in islice(absent, max(0, room))]
    if new:
        MetricSeries.objects.bulk_create(new, ignore_conflicts=True)
    return {(row.job_id, row.rank, row.name): row for row in rows.lock_rows()}


def _empty_row(job: int, rank: int, name: str) -> MetricSeries:
    origin = {"attempt": 0, "part": 0}
    figures = {"count": 0, "last": 0.0, "last_step": 0, "low": 0.0, "high": 0.0}
    return MetricSeries(
        job_id=job, rank=rank, name=name, **origin, **figures, updated_at=timezone.now()
    )


def _merge(row: MetricSeries, replica: Replica, part: int, points: SeriesPoints) -> None:
    values = [float(value) for value in points.values]
    low, high = float(points.low), float(points.high)
    kept = KeptPoints(tuple((step, value) for step, value in row.points), row.spacing)
    origin = (replica.attempt.number, part)
    merged = merged_points(
        kept,
        list(zip(points.steps, values, strict=True)),
        begins_anew=(row.attempt, row.part) != origin,
    )
    row.points, row.spacing = [list(point) for point in merged.points], merged.spacing
    row.attempt, row.part = origin
    row.low, row.high = (min(row.low, low), max(row.high, high)) if row.count else (low, high)
    row.count += points.count
    row.last, row.last_step = values[-1], points.steps[-1]
    row.updated_at = timezone.now()
