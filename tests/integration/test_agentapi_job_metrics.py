"""Metrics of jobs from nodes: each point once, of a node's own replicas, and bounded rows."""

import asyncio

import pytest
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.job_metrics import (
    JOB_METRICS_PATH,
    JobMetricsRequest,
    MetricsBatch,
    SeriesPoints,
    SkippedCount,
    SkipReason,
)
from portal.job_metrics import services
from portal.job_metrics.models import MetricSeries, MetricsPosition
from portal.jobs.models import Attempt, Replica
from portal.live.listener import subscribe
from tests.support.agent_calls import an_agent, code_of, run
from tests.support.job_metrics import MARK
from tests.support.job_metrics import series_points as points
from tests.support.replica_rows import a_replica

pytestmark = pytest.mark.django_db(transaction=True)


def a_batch(replica, offset: int, end: int, *series: SeriesPoints, part=0, skipped=()):
    return MetricsBatch(str(replica.pk), part, offset, end, MARK, series, skipped)


async def send(agent, client, *batches: MetricsBatch, from_logs=False):
    body = encode(JobMetricsRequest(agent.epoch, batches, from_logs=from_logs))
    return await client.post(JOB_METRICS_PATH, json=body, headers=agent.headers)


def position(answer) -> list[tuple[int, int, str]]:
    assert answer.status_code == 200, answer.text
    return [(row["part"], row["offset"], row["code"]) for row in answer.json()["results"]]


def test_points_are_taken_once_however_often_they_are_sent():
    agent = an_agent()
    replica = a_replica(agent.node)
    skipped = (SkippedCount(SkipReason.NOT_JSON, 2),)
    first = a_batch(replica, 0, 50, points("loss", (1, 0.9), (2, 0.5)), skipped=skipped)
    second = a_batch(replica, 50, 80, points("loss", (3, 0.7)), points("acc", (3, 0.1)))

    async def scenario(client):
        await agent.hello(client)
        with subscribe(f"job:{replica.attempt.job_id}") as bell:
            assert position(await send(agent, client, first)) == [(0, 50, "")]
            assert await bell.wait(300)
        # Repeated, and ahead of where the file has arrived.
        ahead = a_batch(replica, 90, 99, points("loss", (9, 9)))
        for batch in (first, ahead):
            assert position(await send(agent, client, batch)) == [(0, 50, "offset_mismatch")]
        answers = await asyncio.gather(*(send(agent, client, second) for _ in range(4)))
        assert sorted(position(answer)[0][2] for answer in answers) == [
            "",
            *["offset_mismatch"] * 3,
        ]

    run(scenario)
    loss = MetricSeries.objects.get(name="loss")
    assert loss.points == [[1, 0.9], [2, 0.5], [3, 0.7]]
    assert (loss.count, loss.low, loss.high) == (3, 0.5, 0.9)
    assert (loss.last_step, loss.last, loss.rank) == (3, 0.7, 0)
    assert loss.job_id == replica.attempt.job_id
    assert MetricsPosition.objects.get().skipped == {"not_json": 2}


def test_lines_of_the_log_join_the_series_of_the_file_each_once():
    agent = an_agent()
    replica = a_replica(agent.node)
    skipped = (SkippedCount(SkipReason.NOT_JSON, 1),)
    file = a_batch(replica, 0, 50, points("loss", (1, 0.9)))
    first = a_batch(replica, 900, 940, points("loss", (2, 0.5)), skipped=skipped)
    later = a_batch(replica, 1_200, 1_240, points("loss", (3, 0.4)))
    overlapping = a_batch(replica, 1_000, 1_300, points("loss", (3, 0.4), (4, 0.3)))

    async def scenario(client):
        await agent.hello(client)
        assert position(await send(agent, client, file)) == [(0, 50, "")]
        for batch, expected in (
            (first, (0, 940, "")),
            (first, (0, 940, "offset_mismatch")),
            (later, (0, 1_240, "")),
            (overlapping, (0, 1_240, "offset_mismatch")),
        ):
            assert position(await send(agent, client, batch, from_logs=True)) == [expected]
        # The file goes on where it was.
        assert position(await send(agent, client, a_batch(replica, 50, 60))) == [(0, 60, "")]

    run(scenario)
    loss = MetricSeries.objects.get()
    assert (loss.points, loss.count) == ([[1, 0.9], [2, 0.5], [3, 0.4]], 3)
    assert MetricsPosition.objects.get().skipped == {"not_json": 1}


def test_a_file_that_begins_anew_and_a_later_attempt_continue_the_series():
    agent = an_agent()
    replica = a_replica(agent.node)
    job = replica.attempt.job
    attempt = Attempt.objects.create(job=job, number=2, created_at=timezone.now())
    later = Replica.objects.create(attempt=attempt, rank=0, node=agent.node)

    async def scenario(client):
        await agent.hello(client)
        old = points("loss", *((step, 1) for step in range(6)))
        assert position(await send(agent, client, a_batch(replica, 0, 60, old))) == [(0, 60, "")]
        anew = a_batch(replica, 0, 20, points("loss", (4, 2)), part=1)
        assert position(await send(agent, client, anew)) == [(1, 20, "")]
        resumed = a_batch(later, 0, 20, points("loss", (3, 3), (4, 3)))
        assert position(await send(agent, client, resumed)) == [(0, 20, "")]
        # What the earlier attempt still had to say comes too late.
        late = a_batch(replica, 20, 30, points("loss", (9, 9)), part=1)
        assert position(await send(agent, client, late)) == [(1, 30, "")]

    run(scenario)
    loss = MetricSeries.objects.get()
    assert loss.points == [[0, 1], [1, 1], [2, 1], [3, 3], [4, 3]]
    assert (loss.attempt, loss.last) == (2, 3)


def test_a_replica_of_another_node_and_one_that_is_none_are_refused_beside_others():
    agent, other = an_agent(), an_agent()
    own, foreign = a_replica(agent.node), a_replica(other.node)

    async def scenario(client):
        await agent.hello(client)
        batches = [a_batch(row, 0, 9, points("loss", (1, 1))) for row in (foreign, own)]
        answer = await send(agent, client, *batches, MetricsBatch("no-uuid", 0, 0, 9, 0))
        codes = [code for _, _, code in position(answer)]
        assert codes == ["replica_unknown", "", "replica_unknown"]

    run(scenario)
    assert MetricSeries.objects.get().job == own.attempt.job


def test_a_job_has_a_bounded_number_of_series(monkeypatch):
    monkeypatch.setattr(services, "MAX_JOB_SERIES", 3)
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        many = [points(f"n{n}", (1, n), (2, n)) for n in range(5)]
        assert position(await send(agent, client, a_batch(replica, 0, 9, *many))) == [(0, 9, "")]
        again = points("n0", (3, 0.5))
        assert position(await send(agent, client, a_batch(replica, 9, 18, again))) == [(0, 18, "")]

    run(scenario)
    assert sorted(MetricSeries.objects.values_list("name", "count")) == [
        ("n0", 3),
        ("n1", 2),
        ("n2", 2),
    ]
    assert MetricsPosition.objects.get().skipped == {"too_many_names": 4}


@pytest.mark.parametrize(
    "change",
    [
        {"series": [{**encode(points("loss", (1, 1))), "values": ["1e999"]}]},
        {"series": [{**encode(points("loss", (1, 1))), "values": ["NaN"]}]},
        {"series": [{**encode(points("loss", (1, 1))), "steps": [1, 2]}]},
        {"series": [{**encode(points("loss", (1, 1))), "name": "a b"}]},
        {"series": [encode(points("loss", (1, 1)))] * 2},
        {"offset": 9, "end": 3},
        {"part": 2**40},
    ],
)
def test_a_call_that_makes_no_sense_is_refused_whole(change):
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        body = {"epoch": agent.epoch, "batches": [encode(a_batch(replica, 0, 9)) | change]}
        answer = await client.post(JOB_METRICS_PATH, json=body, headers=agent.headers)
        assert code_of(answer) == (400, "invalid_field")
        stranger = await client.post(JOB_METRICS_PATH, json=body)
        assert stranger.status_code == 401

    run(scenario)
    assert not MetricSeries.objects.exists()
