"""Logs from nodes: appended by offset, only to a node's own replicas."""

import asyncio
import uuid

import pytest
from django.utils import timezone

from agents.contract.calls import MAX_LOG_CHUNK_BYTES
from portal.agentapi import logs
from portal.job_logs.storage import read_log, stream_name
from portal.jobs.models import Replica
from portal.live.listener import subscribe
from portal.storage.models import Segment
from portal.storage.stores import current_store
from tests.support.agent_calls import an_agent, run
from tests.support.replica_rows import a_replica

pytestmark = pytest.mark.django_db(transaction=True)


def objects_of(replica) -> list[str]:
    return current_store().names(stream_name(replica))


def test_a_log_grows_by_offset_and_repeats_are_harmless():
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        with subscribe(f"job:{replica.attempt.job_id}") as bell:
            first = await agent.log(client, replica.pk, 0, b"one\n")
            assert first.json() == {"next_offset": 4}
            assert await bell.wait(300)
        assert (await agent.log(client, replica.pk, 0, b"one\n")).json() == {"next_offset": 4}
        assert (await agent.log(client, replica.pk, 4, b"two\n")).json() == {"next_offset": 8}
        for offset in (9, 6):
            answer = await agent.log(client, replica.pk, offset, b"three")
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "offset_mismatch")
            assert answer.json()["error"]["expected_offset"] == 8

    run(scenario)
    replica.refresh_from_db()
    assert read_log(replica, 0, 100) == b"one\ntwo\n"
    assert read_log(replica, 4, 2) == b"tw"
    assert read_log(replica, 8, 10) == b""


def test_the_same_chunk_sent_twice_at_once_is_written_once():
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        calls = [agent.log(client, replica.pk, 0, b"x" * 1000) for _ in range(8)]
        answers = await asyncio.gather(*calls)
        assert {answer.json()["next_offset"] for answer in answers} == {1000}

    run(scenario)
    replica.refresh_from_db()
    assert (replica.log_bytes, read_log(replica, 0, 2000)) == (1000, b"x" * 1000)
    assert len(objects_of(replica)) == 1


def test_another_nodes_replica_does_not_exist_here():
    agent, other = an_agent(), an_agent()
    replica = a_replica(other.node)

    async def scenario(client):
        await agent.hello(client)
        for name in (replica.pk, uuid.uuid4(), "no-uuid"):
            answer = await agent.log(client, name, 0, b"x")
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "replica_unknown")

    run(scenario)
    assert objects_of(replica) == []
    assert not Segment.objects.exists()


def test_chunks_and_logs_have_a_largest_size(monkeypatch):
    agent = an_agent()
    replica = a_replica(agent.node)
    monkeypatch.setattr(logs, "MAX_LOG_BYTES", 10)

    async def scenario(client):
        await agent.hello(client)
        big = await agent.log(client, replica.pk, 0, b"x" * (MAX_LOG_CHUNK_BYTES + 1))
        assert big.status_code == 413
        assert (await agent.log(client, replica.pk, 0, b"x" * 10)).status_code == 200
        full = await agent.log(client, replica.pk, 10, b"x")
        assert (full.status_code, full.json()["error"]["code"]) == (413, "too_large")
        # The agent skips what is refused, and so comes to the end of its log.
        skipped = await agent.log(client, replica.pk, 11, b"y")
        assert (skipped.status_code, skipped.json()["error"]["code"]) == (413, "too_large")

    run(scenario)


def test_a_log_that_retention_removed_is_skipped_to_its_end(monkeypatch):
    agent = an_agent()
    replica = a_replica(agent.node)
    upload = logs.upload

    def upload_and_remove(stream, data):
        parts = upload(stream, data)
        Replica.objects.update(log_removed_at=timezone.now())
        return parts

    monkeypatch.setattr(logs, "upload", upload_and_remove)

    async def scenario(client):
        await agent.hello(client)
        for offset in (0, 4, 8):
            answer = await agent.log(client, replica.pk, offset, b"late")
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")

    run(scenario)
    assert objects_of(replica) == []


def test_a_log_needs_a_session_and_an_offset():
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        path = f"/agent/v1/replicas/{replica.pk}/log"
        assert (await client.put(path, content=b"x", headers=agent.headers)).status_code == 400
        await agent.hello(client)
        agent.epoch -= 1
        assert (await agent.log(client, replica.pk, 0, b"x")).status_code == 409

    run(scenario)
