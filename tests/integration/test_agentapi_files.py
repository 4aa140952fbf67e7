"""Files from nodes: contents in chunks, trees, and what a node may read of them."""

import asyncio
import uuid
from datetime import timedelta

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from agents.contract.file_transfer import EMPTY_SHA256, FileContent, TreeKind
from portal.agentapi import arriving_chunks
from portal.audit.codes import EventCode
from portal.audit.models import Event
from portal.files import receiving
from portal.files.models import ProjectFiles, StoredFile, Tree
from portal.files.running_hashes import RunningHashes
from portal.inventory.models import Node
from portal.jobs.models import Attempt, Job, Replica
from portal.storage.errors import StoreUnavailable
from portal.storage.models import Segment
from scheduler import sweeper
from scheduler.core.model.states import JobStatus, NodeStatus
from tests.support.agent_calls import an_agent, code_of, run
from tests.support.file_calls import FileSender, sha256
from tests.support.replica_rows import a_replica

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = bytes(range(256)) * 40
NAME, SIZE = sha256(WHOLE), len(WHOLE)


def a_sender(client, agent, replica):
    return FileSender(agent, client, replica.pk)


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
    upload = receiving.upload

    def full(*_, **__):
        raise StoreUnavailable("no space left on device")

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        monkeypatch.setattr(receiving, "upload", full)
        assert code_of(await sender.put(WHOLE)) == (503, "unavailable")
        monkeypatch.setattr(receiving, "upload", upload)
        assert (await sender.put(WHOLE)).json()["complete"]

    run(scenario)


def test_a_tree_is_committed_once_all_its_files_are_there():
    agent = an_agent()
    replica = a_replica(agent.node)
    contents = {"model/b.bin": WHOLE, "a.txt": b"a", "empty": b""}

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        await sender.put(WHOLE)
        refused = await sender.commit(contents)
        assert code_of(refused) == (409, "file_incomplete")
        assert "a.txt" in refused.json()["error"]["sentence"]
        for data in (b"a", b""):
            assert (await sender.put(data)).json()["complete"]
        first = await sender.commit(contents, left_out=3)
        assert first.status_code == 200
        assert (await sender.commit(contents)).json() == first.json()

    run(scenario)
    tree = Tree.objects.get()
    assert (tree.kind, tree.file_count, tree.total_bytes) == ("output", 3, SIZE + 1)
    assert (tree.job_id, tree.left_out) == (replica.attempt.job_id, 3)
    entries = tree.entries.values_list("path", "file__sha256")
    assert list(entries) == [
        ("a.txt", sha256(b"a")),
        ("empty", EMPTY_SHA256),
        ("model/b.bin", NAME),
    ]
    assert not StoredFile.objects.filter(removable_at__isnull=False).exists()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "x" * 2_000])
def test_a_path_that_leaves_the_folder_is_refused(path):
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, replica)
        await sender.put(b"x")
        assert code_of(await sender.commit({path: b"x"})) == (400, "invalid_field")

    run(scenario)
    assert not Tree.objects.exists()


def test_a_later_attempt_on_another_node_reads_the_newest_checkpoint():
    agent, other = an_agent(), an_agent()
    first = a_replica(agent.node)
    attempt = Attempt.objects.create(
        job=first.attempt.job, number=2, created_at=first.attempt.created_at
    )
    second = Replica.objects.create(attempt=attempt, rank=0, node=other.node)

    async def scenario(client):
        await agent.hello(client)
        await other.hello(client)
        sender, reader = a_sender(client, agent, first), a_sender(client, other, second)
        assert code_of(await reader.tree("checkpoint")) == (404, "tree_unknown")
        await sender.save({"state": b"one", "saved.json": b"{}"}, step=1)
        newest = await sender.save({"state": b"two", "saved.json": b"{}"}, step=2)
        page = (await reader.tree("checkpoint")).json()
        assert (page["tree"], page["step"], page["file_count"]) == (newest, 2, 2)
        assert [one["path"] for one in page["files"]] == ["saved.json", "state"]
        assert (await reader.tree(newest, after=1)).json()["files"][0]["path"] == "state"
        assert (await reader.get(sha256(b"two"))).content == b"two"
        assert (await reader.get(sha256(b"two"), 1)).content == b"wo"
        assert (await reader.get(sha256(b"two"), 3)).content == b""
        assert code_of(await reader.get(NAME)) == (404, "file_unknown")

    run(scenario)


def test_a_replica_that_fetches_its_files_is_not_late():
    agent = an_agent()
    first = a_replica(agent.node)
    late = timezone.now() - timedelta(hours=1)
    Job.objects.update(status=JobStatus.PREPARING)
    Attempt.objects.update(created_at=late)

    async def scenario(client):
        await agent.hello(client)
        sender = a_sender(client, agent, first)
        await sender.save({"saved.json": b"{}"}, step=1)
        assert (await sender.get(sha256(b"{}"))).content == b"{}"

    run(scenario)
    job = Job.objects.get()
    sweeper.sweep()
    job.refresh_from_db()
    assert job.status == JobStatus.PREPARING
    Replica.objects.update(pull_moved_at=late)
    sweeper.sweep()
    job.refresh_from_db()
    assert job.status != JobStatus.PREPARING


def test_a_checkpoint_has_the_files_of_all_ranks_of_its_step():
    agent = an_agent()
    first = a_replica(agent.node)
    second = Replica.objects.create(attempt=first.attempt, rank=1, node=agent.node)

    async def scenario(client):
        await agent.hello(client)
        zero, one = a_sender(client, agent, first), a_sender(client, agent, second)
        await one.save({"rank1": b"old", "both": b"1"}, step=1)
        await one.save({"rank1": b"new", "both": b"1"}, step=2)
        # Rank 0 has not saved step 2 yet: step 1 is the newest.
        await zero.save({"rank0": b"0", "both": b"0"}, step=1)
        files = (await zero.tree("checkpoint")).json()["files"]
        assert {f["path"]: f["sha256"] for f in files} == {
            "rank0": sha256(b"0"),
            "rank1": sha256(b"old"),
            "both": sha256(b"0"),
        }

    run(scenario)


def test_only_the_newest_checkpoints_of_a_job_are_kept():
    agent = an_agent()
    replica = a_replica(agent.node)

    async def scenario(client):
        await agent.hello(client)
        for step in range(1, 5):
            await a_sender(client, agent, replica).save({"s": f"step {step}".encode()}, step)

    run(scenario)
    kept = Tree.objects.with_files().order_by("step").values_list("step", flat=True)
    assert list(kept) == [3, 4]
    gone = Tree.objects.filter(removed_at__isnull=False)
    assert [tree.entries.count() for tree in gone] == [0, 0]


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
