"""Trees of files between agents and the portal: whole, safe, and read by later attempts."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.contract.file_transfer import EMPTY_SHA256
from portal.files.models import StoredFile, Tree
from portal.inventory.models import Node
from portal.jobs.models import Attempt, Job, Replica
from scheduler import sweeper
from scheduler.core.model.states import JobStatus
from tests.support.agent_calls import an_agent, code_of, run
from tests.support.file_calls import a_sender, sha256
from tests.support.replica_rows import a_replica

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = bytes(range(256)) * 40
NAME, SIZE = sha256(WHOLE), len(WHOLE)


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
    Node.objects.update(contact_since=late)
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
