"""Metrics of jobs on PostgreSQL: rows are written as arrays, and a batch counts once."""

import threading

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.contract.job_metrics import MetricsBatch, SeriesPoints
from portal.inventory.models import Node
from portal.job_metrics.models import MetricSeries, MetricsPosition
from portal.job_metrics.services import metrics_record
from portal.jobs.models import Attempt, Replica
from portal.live import bell
from tests.services.lock_waits import waits_for_lock
from tests.services.stack import until
from tests.support.job_metrics import MARK, metrics_report, series_points
from tests.support.replica_rows import a_replica

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("postgres_django")]


@pytest.fixture(autouse=True)
def silent_bells(monkeypatch):
    monkeypatch.setattr(bell, "_send", lambda *call: None)


def test_the_statements_do_not_grow_with_the_series():
    replica = a_replica(Node.objects.create(name="n1"))
    counts = []
    for step in range(3):
        series = [series_points(f"m{n}", (step, 10.0**-n)) for n in range(1 + 30 * step)]
        with CaptureQueriesContext(connection) as seen:
            metrics_report(replica, *series)
        counts.append(len(seen))
    assert counts[2] <= counts[1] <= 14
    assert MetricSeries.objects.count() == 61
    row = MetricSeries.objects.get(name="m0")
    assert (row.points, row.count, row.last) == ([[0, 1.0], [1, 1.0], [2, 1.0]], 3, 1.0)


def a_batch(replica: Replica, points: SeriesPoints) -> MetricsBatch:
    return MetricsBatch(str(replica.pk), 0, 0, 9, MARK, (points,))


def test_one_batch_sent_four_times_at_once_counts_once():
    replica = a_replica(Node.objects.create(name="n1"))
    batch = a_batch(replica, series_points("loss", (1, 0.5)))
    codes = []

    def send():
        try:
            results = metrics_record(replicas={str(replica.pk): replica}, batches=[batch])
            codes.append(results[0].code)
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == ["", *["offset_mismatch"] * 3]
    assert MetricSeries.objects.get().count == 1
    assert MetricsPosition.objects.get().offset == 9


def test_two_nodes_that_report_a_new_series_at_once_are_both_heard():
    first = a_replica(Node.objects.create(name="n1"))
    attempt = Attempt.objects.create(
        job=first.attempt.job, number=2, created_at=first.attempt.created_at
    )
    second = Replica.objects.create(attempt=attempt, rank=0, node=Node.objects.create(name="n2"))
    codes = []

    def send(replica, value):
        try:
            batch = a_batch(replica, series_points("loss", (1, value)))
            codes.append(
                metrics_record(replicas={str(replica.pk): replica}, batches=[batch])[0].code
            )
        finally:
            connection.close()

    later = threading.Thread(target=send, args=(second, 0.25))
    with transaction.atomic():
        batch = a_batch(first, series_points("loss", (1, 0.5)))
        metrics_record(replicas={str(first.pk): first}, batches=[batch])
        later.start()
        until(waits_for_lock, seconds=20, what="the second node to wait for the first")
    later.join()
    assert codes == [""]
    row = MetricSeries.objects.get()
    assert (row.attempt, row.count, row.last) == (2, 2, 0.25)
