"""Files from nodes: contents in chunks, trees, and what a node may read of them."""

import asyncio
import threading
import uuid

import pytest
from django.conf import settings
from django.test import override_settings

from agents.contract.file_transfer import FileContent, TreeKind
from portal.agentapi import arriving_chunks
from portal.audit.codes import EventCode
from portal.audit.models import Event
from portal.files import receiving
from portal.files.models import ProjectFiles, StoredFile
from portal.files.running_hashes import RunningHashes
from portal.inventory.models import Node
from portal.storage.errors import StoreUnavailable
from portal.storage.models import Segment
from scheduler.core.model.states import NodeStatus
from tests.support.agent_calls import an_agent, code_of, run
from tests.support.file_calls import FileSender, a_sender, sha256
from tests.support.replica_rows import a_replica

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = bytes(range(256)) * 40
NAME, SIZE = sha256(WHOLE), len(WHOLE)


def stored_bytes(replica):
    return ProjectFiles.objects.get(pk=replica.attempt.job.project_id).stored_bytes


def test_a_file_grows_by_offset_and_is_complete_after_its_last_byte():
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        content = FileContent(NAME, SIZE)
        assert await sender.have(content) == [(0, False)]
        part = {"name": NAME, "size": SIZE}
        first = await sender.put(WHOLE[:4000], 0, **part)
        assert first.json() == {"sha256": NAME, "received": 4000, "complete": False}
        # Repeated, and where it does not follow.
        assert (await sender.put(WHOLE[:4000], 0, **part)).json()["received"] == 4000
        for offset in (3000, 5000):
            refused = await sender.put(WHOLE[offset:], offset, **part)
            assert code_of(refused) == (409, "offset_mismatch")
            assert refused.json()["error"]["expected_offset"] == 4000
        assert await sender.have(content) == [(4000, False)]
        last = await sender.put(WHOLE[4000:], 4000, **part)
        assert last.json() == {"sha256": NAME, "received": SIZE, "complete": True}
        assert (await sender.put(WHOLE[4000:], 4000, **part)).json()["complete"]
        assert await sender.have(content, FileContent(NAME, 7)) == [(SIZE, True), (0, False)]
        beyond = await sender.put(b"x", SIZE, **part)
        assert code_of(beyond) == (400, "invalid_field")

    run(scenario)
    assert stored_bytes(replica) == SIZE
    assert Segment.objects.count() == 2


def test_the_same_chunk_of_two_senders_at_once_is_stored_once():
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        answers = await asyncio.gather(*(sender.put(WHOLE) for _ in range(6)))
        assert {answer.status_code for answer in answers} == {200}
        assert await sender.have(FileContent(NAME, SIZE)) == [(SIZE, True)]

    run(scenario)
    assert (Segment.objects.count(), stored_bytes(replica)) == (1, SIZE)


def test_a_chunk_that_arrives_with_the_one_before_it_waits_for_its_turn():
    agent = an_agent()
    replica = a_replica(agent.node)
    part = {"name": NAME, "size": SIZE}

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        await sender.have(FileContent(NAME, SIZE))
        ends = [4_000, 8_000, SIZE]
        puts = [
            sender.put(WHOLE[start:end], start, **part)
            for start, end in zip([0, *ends], ends, strict=False)
        ]
        answers = [answer.json() for answer in await asyncio.gather(*puts)]
        assert [answer["received"] for answer in answers] == ends
        assert answers[-1]["complete"]

    run(scenario)
    assert Segment.objects.count() == 3


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_chunk_goes_to_the_store_before_its_turn_and_counts_only_then(monkeypatch, is_refused):
    agent = an_agent()
    replica = a_replica(agent.node)
    part = {"name": NAME, "size": SIZE}
    upload, later_is_stored = receiving.upload_content, threading.Event()

    def stored(stream, data, object_bytes):
        is_later = data[:1] == WHOLE[8_000:8_001]
        if not is_later:
            assert later_is_stored.wait(30)
            if is_refused:
                raise StoreUnavailable("no space left on device")
        parts = upload(stream, data, object_bytes)
        if is_later:
            later_is_stored.set()
        return parts

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        await sender.put(WHOLE[:4_000], 0, **part)
        monkeypatch.setattr(receiving, "upload_content", stored)
        two = (
            sender.put(WHOLE[4_000:8_000], 4_000, **part),
            sender.put(WHOLE[8_000:], 8_000, **part),
        )
        earlier, later = await asyncio.gather(*two)
        if is_refused:
            assert code_of(earlier) == (503, "unavailable")
            assert code_of(later) == (409, "offset_mismatch")
            assert later.json()["error"]["expected_offset"] == 4_000
        else:
            assert (earlier.json()["received"], later.json()["complete"]) == (8_000, True)

    run(scenario)
    folder = settings.PLATFORM.var / StoredFile.objects.get().stream
    assert len(list(folder.iterdir())) == Segment.objects.count() == (1 if is_refused else 3)


def test_memory_of_a_call_that_was_given_up_is_left_to_its_thread():
    memory = arriving_chunks.ChunkMemory()
    with memory.one() as first:
        pass
    with pytest.raises(OSError, match="full"), memory.one() as second:
        raise OSError("full")
    assert second is first
    with pytest.raises(asyncio.CancelledError), memory.one() as third:
        raise asyncio.CancelledError
    with memory.one() as fourth:
        assert third is first
        assert fourth is not first


def test_more_chunks_than_there_is_room_for_come_again(monkeypatch):
    agent = an_agent()
    replica = a_replica(agent.node)
    monkeypatch.setattr(arriving_chunks, "MAX_CHUNKS", 0)

    async def scenario(client):
        await agent.hello(client)
        refused = await a_sender(client, agent, replica).put(WHOLE)
        assert code_of(refused) == (503, "unavailable")
        assert int(refused.headers["Retry-After"]) > 0

    run(scenario)


def test_bytes_with_another_hash_are_forgotten_and_cost_nothing():
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        refused = await sender.put(b"x" * SIZE, name=NAME)
        assert code_of(refused) == (409, "hash_mismatch")
        assert await sender.have(FileContent(NAME, SIZE)) == [(0, False)]
        assert (await sender.put(WHOLE)).json()["complete"]

    run(scenario)
    assert stored_bytes(replica) == SIZE


def test_a_comparison_that_died_is_made_again_when_the_agent_asks():
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        await sender.put(WHOLE)
        await asyncio.to_thread(StoredFile.objects.update, is_complete=False)
        assert await sender.have(FileContent(NAME, SIZE)) == [(SIZE, True)]

    run(scenario)


def test_what_does_not_fit_is_not_taken_and_the_job_says_so_once():
    agent = an_agent()
    replica = a_replica(agent.node)
    project = replica.attempt.job.project
    ProjectFiles.objects.create(project=project, stored_gib=1, stored_bytes=(1 << 30) - 100)

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        for _ in range(2):
            assert code_of(await sender.put(WHOLE)) == (413, "stored_limit")
        assert (await sender.put(b"fits")).json()["complete"]

    run(scenario)
    (event,) = Event.objects.filter(job=replica.attempt.job, code=EventCode.FILES_NOT_STORED)
    assert "may store 1 GiB" in event.sentence


def test_a_full_store_keeps_no_bytes_and_the_agent_tries_again(monkeypatch):
    agent = an_agent()
    replica = a_replica(agent.node)
    upload = receiving.upload_content

    def full(*_, **__):
        raise StoreUnavailable("no space left on device")

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        monkeypatch.setattr(receiving, "upload_content", full)
        assert code_of(await sender.put(WHOLE)) == (503, "unavailable")
        monkeypatch.setattr(receiving, "upload_content", upload)
        assert (await sender.put(WHOLE)).json()["complete"]

    run(scenario)


def test_a_node_neither_writes_nor_reads_for_replicas_of_others():
    agent, other = an_agent(), an_agent()
    mine, theirs = a_replica(agent.node), a_replica(other.node)

    async def scenario(client):
        await agent.hello(client)
        await other.hello(client)
        tree = await a_sender(client, other, theirs).save({"secret": WHOLE}, step=1)
        intruder = FileSender(agent, client, theirs.pk)
        own = a_sender(client, agent, mine)
        content = FileContent(NAME, SIZE)
        assert await own.have(content) == [(0, False)], "another project's content is not told"
        for answer in (
            await intruder.put(b"x"),
            await intruder.get(NAME),
            await intruder.tree(tree),
            await intruder.commit({"secret": WHOLE}),
            await FileSender(agent, client, uuid.uuid4()).put(b"x"),
            await FileSender(agent, client, "no-uuid").put(b"x"),
        ):
            assert code_of(answer) == (404, "replica_unknown")
        assert code_of(await own.tree(tree)) == (404, "tree_unknown")
        assert code_of(await own.tree("no-uuid")) == (404, "tree_unknown")
        assert code_of(await own.get(NAME)) == (404, "file_unknown")
        assert code_of(await own.commit({"x": WHOLE})) == (409, "file_incomplete")
        assert code_of(await own.commit({}, TreeKind.CODE)) == (400, "invalid_field")

    run(scenario)


def test_a_node_that_was_retired_sends_no_more():
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        await sender.put(b"x")
        await asyncio.to_thread(Node.objects.update, status=NodeStatus.RETIRED)
        assert code_of(await sender.put(b"y")) == (410, "node_retired")

    run(scenario)


def test_the_setting_limits_projects_without_a_limit_of_their_own():
    agent = an_agent()
    replica = a_replica(agent.node)
    limited = settings.PLATFORM.__class__(**vars(settings.PLATFORM) | {"stored_gib": 0})

    async def scenario(client):
        await agent.hello(client)
        assert code_of(await a_sender(client, agent, replica).put(b"x")) == (413, "stored_limit")

    with override_settings(PLATFORM=limited):
        run(scenario)


@pytest.mark.parametrize("is_other_process", [False, True])
def test_the_hash_is_known_at_the_end_or_read_from_the_store(monkeypatch, is_other_process):
    """Of chunks that one process has seen all, nothing is read again."""
    agent = an_agent()
    replica = a_replica(agent.node)
    reads = []
    pieces = receiving.range_pieces
    monkeypatch.setattr(
        receiving, "range_pieces", lambda *args: reads.append(args) or pieces(*args)
    )

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        part = {"name": NAME, "size": SIZE}
        await sender.put(WHOLE[:100], 0, **part)
        await sender.put(WHOLE[:100], 0, **part)
        if is_other_process:
            monkeypatch.setattr(receiving, "running_hashes", RunningHashes())
        assert (await sender.put(WHOLE[100:], 100, **part)).json()["complete"]
        assert len(reads) == is_other_process

    run(scenario)
