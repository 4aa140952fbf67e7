"""The logs of a node in one call: each chunk is judged by itself, and all are counted together."""

import asyncio
import json
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.contract.calls import EPOCH_HEADER, LOGS_PATH, MAX_LOG_CHUNK_BYTES
from agents.contract.log_batch import MAX_LOG_BATCH_BODY_BYTES, NewLogBytes, pack_logs
from portal.agentapi import logs, threads
from portal.agentapi.door import door
from portal.agentapi.logs import LogCall
from portal.job_logs.storage import read_log, stream_name
from portal.live.listener import subscribe
from portal.storage.errors import StoreUnavailable
from portal.storage.models import Segment
from portal.storage.stores import current_store
from portal.token_buckets import BucketRate, TokenBuckets
from tests.support.agent_calls import an_agent, run
from tests.support.replica_rows import a_replica

pytestmark = pytest.mark.django_db(transaction=True)


def replicas_of(agent, count=3):
    return [a_replica(agent.node) for _ in range(count)]


def text_of(replica) -> bytes:
    replica.refresh_from_db()
    return read_log(replica, 0, 1_000)


def results(answer):
    assert answer.status_code == 200, answer.text
    return [(r["next_offset"], r["code"]) for r in answer.json()["results"]]


def test_all_logs_of_a_node_grow_in_one_call_and_repeats_are_harmless():
    agent = an_agent()
    first, second, third = replicas_of(agent)

    async def scenario(client):
        await agent.hello(client)
        with subscribe(f"job:{second.attempt.job_id}") as bell:
            sent = [(first.pk, 0, b"one\n"), (second.pk, 0, b"two\n")]
            assert results(await agent.logs(client, *sent)) == [(4, ""), (4, "")]
            assert await bell.wait(300)
        sent = [(third.pk, 0, b"three\n"), (first.pk, 0, b"one\n"), (second.pk, 4, b"more\n")]
        assert results(await agent.logs(client, *sent)) == [(6, ""), (4, ""), (9, "")]

    run(scenario)
    assert list(map(text_of, (first, second, third))) == [b"one\n", b"two\nmore\n", b"three\n"]


def test_a_chunk_that_is_refused_does_not_keep_the_others(monkeypatch):
    agent, other = an_agent(), an_agent()
    good, ahead, full = replicas_of(agent)
    (foreign,) = replicas_of(other, 1)
    monkeypatch.setattr(logs, "MAX_LOG_BYTES", 10)

    async def scenario(client):
        await agent.hello(client)
        sent = [
            (foreign.pk, 0, b"x"),
            (ahead.pk, 7, b"x"),
            (good.pk, 0, b"y"),
            (full.pk, 0, b"z" * 11),
            (uuid.uuid4(), 0, b"x"),
            ("no-uuid", 0, b"x"),
        ]
        assert results(await agent.logs(client, *sent)) == [
            (0, "replica_unknown"),
            (0, "offset_mismatch"),
            (1, ""),
            (0, "too_large"),
            (0, "replica_unknown"),
            (0, "replica_unknown"),
        ]

    run(scenario)
    assert text_of(good) == b"y"
    assert Segment.objects.count() == 1


def test_the_same_call_twice_at_once_is_written_once():
    agent = an_agent()
    replicas = replicas_of(agent)
    sent = [(replica.pk, 0, b"x" * 1_000) for replica in replicas]

    async def scenario(client):
        await agent.hello(client)
        answers = await asyncio.gather(*(agent.logs(client, *sent) for _ in range(6)))
        assert all(results(answer) == [(1_000, "")] * 3 for answer in answers)

    run(scenario)
    for replica in replicas:
        assert text_of(replica) == b"x" * 1_000
        assert len(current_store().names(stream_name(replica))) == 1


def test_a_store_that_fails_in_the_middle_keeps_nothing_of_the_call(monkeypatch):
    agent = an_agent()
    replicas = replicas_of(agent)
    upload = logs.upload

    def failing(stream, data):
        if stream == stream_name(replicas[2]):
            raise StoreUnavailable("the store is away")
        return upload(stream, data)

    monkeypatch.setattr(logs, "upload", failing)

    async def scenario(client):
        await agent.hello(client)
        answer = await agent.logs(client, *((replica.pk, 0, b"x") for replica in replicas))
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")

    run(scenario)
    assert not Segment.objects.exists()
    assert [current_store().names(stream_name(replica)) for replica in replicas] == [[], [], []]


def test_a_session_that_ended_during_the_upload_counts_nothing(monkeypatch):
    agent = an_agent()
    replicas = replicas_of(agent)
    upload = logs.upload

    def upload_and_end(stream, data):
        type(agent.node).objects.filter(pk=agent.node.pk).update(epoch=99)
        return upload(stream, data)

    monkeypatch.setattr(logs, "upload", upload_and_end)

    async def scenario(client):
        await agent.hello(client)
        answer = await agent.logs(client, *((replica.pk, 0, b"x") for replica in replicas))
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "epoch_stale")

    run(scenario)
    assert [text_of(replica) for replica in replicas] == [b"", b"", b""]
    assert [current_store().names(stream_name(replica)) for replica in replicas] == [[], [], []]


def a_body(line, data=b""):
    return json.dumps(line).encode() + b"\n" + data


CHUNK = {"replica": "r", "offset": 0, "size": 1}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed"),
        (b"no json\n", "malformed"),
        (b"[1]\n", "invalid_field"),
        (b'{"chunks": []}', "malformed"),
        (a_body({"chunks": [CHUNK]}), "malformed"),
        (a_body({"chunks": [CHUNK]}, b"xx"), "malformed"),
        (a_body({"chunks": [CHUNK, CHUNK]}, b"xx"), "malformed"),
        (a_body({"chunks": [CHUNK | {"size": 0}]}), "invalid_field"),
        (a_body({"chunks": [CHUNK | {"offset": -1}]}, b"x"), "invalid_field"),
        (a_body({"chunks": [CHUNK | {"offset": 2**63}]}, b"x"), "invalid_field"),
        (a_body({"chunks": [CHUNK] * 300}, b"x" * 300), "invalid_field"),
        (a_body({"chunks": [CHUNK], "protocol": 9}, b"x"), "protocol_too_new"),
        (b"[" * 100_000, "malformed"),
        (b"x" * (MAX_LOG_BATCH_BODY_BYTES + 1), "too_large"),
    ],
)
def test_what_is_no_batch_of_logs_is_refused_with_a_reason(body, code):
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        answer = await client.post(LOGS_PATH, content=body, headers=agent.headers)
        assert answer.json()["error"]["code"] == code

    run(scenario)


def test_it_needs_a_token_and_an_epoch():
    agent = an_agent()

    async def scenario(client):
        assert (await agent.logs(client)).json()["error"]["code"] == "token_invalid"
        await agent.hello(client)
        headers = {name: value for name, value in agent.headers.items() if name != EPOCH_HEADER}
        answer = await client.post(LOGS_PATH, content=pack_logs([]), headers=headers)
        assert answer.json()["error"]["code"] == "invalid_field"
        assert results(await agent.logs(client)) == []

    run(scenario)


def test_bytes_count_like_the_chunks_that_they_would_fill(monkeypatch):
    agent = an_agent()
    (replica,) = replicas_of(agent, 1)
    buckets = TokenBuckets(BucketRate(burst=6, per_second=1), clock=lambda: 0.0)
    monkeypatch.setattr(door(), "log_chunks", buckets)
    codes = []

    async def scenario(client):
        await agent.hello(client)
        for _ in range(4):
            answer = await agent.logs(client, (replica.pk, 9, b"x" * MAX_LOG_CHUNK_BYTES))
            codes.append(answer.json().get("error", {}).get("code"))

    run(scenario)
    assert codes == [None, None, None, "too_frequent"]


def test_statements_do_not_grow_with_the_number_of_logs():
    agent = an_agent()
    counts = []
    # The first call also makes the row of the store.
    for count in (1, 1, 8):
        replicas = replicas_of(agent, count)
        chunks = tuple(NewLogBytes(str(replica.pk), 0, b"x") for replica in replicas)
        call = LogCall(authorization_of(agent), agent.epoch, chunks)
        with CaptureQueriesContext(
            connection,
        ) as statements:
            _, streams = logs._judge_all(call)
            logs._record_all(call, logs._upload_all(call, streams))
        counts.append(len(statements))
    assert counts[1] == counts[2] <= 10


def authorization_of(agent):
    async def scenario(client):
        await agent.hello(client)

    run(scenario)
    return agent.headers["Authorization"]


def test_reports_do_not_wait_for_logs():
    """With every thread for logs at work, a report is still taken."""
    agent = an_agent()

    async def scenario(client):
        await agent.hello(client)
        loop, release = asyncio.get_running_loop(), asyncio.Event()

        def hold():
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(300)

        held = [asyncio.create_task(threads.run_in_log_thread(hold)) for _ in range(8)]
        upload = asyncio.create_task(agent.logs(client))
        answer = await agent.sync(client)
        assert answer.status_code == 200
        assert not upload.done()
        release.set()
        await asyncio.gather(*held)
        assert results(await upload) == []

    run(scenario)
