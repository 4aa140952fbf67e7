"""All ranks run the bytes of rank 0, and later attempts those of the first."""

import pytest

from agents.contract.documents import DesiredReplicaState
from portal.desired.services import nodes_drive
from portal.jobs.models import Replica
from scheduler.core.model.states import JobStatus
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db
OLD, NEW = "sha256:" + "1" * 64, "sha256:" + "2" * 64
LOCAL = "id:sha256:" + "3" * 64


def a_gang(*digests):
    nodes = [a_node() for _ in digests]
    for node, digest in zip(nodes, digests, strict=True):
        node.digest = digest
        node.report()
    alice = a_user()
    body = {"device": {"gpus": 1}, "retries": {"user": 1}, "replicas": len(digests)}
    job = a_job(alice, a_project("", alice), **body)
    return job, nodes


def ranks(job):
    rows = Replica.objects.filter(attempt__job=job).order_by("attempt", "rank")
    return list(rows.values_list("image_digest", flat=True))


def node_of(rank, nodes):
    name = Replica.objects.get(rank=rank).node.name
    return next(node for node in nodes if node.row.name == name)


def test_a_gang_starts_once_all_ranks_have_the_bytes_of_rank_0():
    job, nodes = a_gang(OLD, NEW)
    plan_once()
    nodes_drive(node_ids=[node.row.pk for node in nodes])
    for node in nodes:
        node.carry_out()
    for node in nodes:
        node.report()
    nodes_drive(node_ids=[node.row.pk for node in nodes])
    first, other = node_of(0, nodes), node_of(1, nodes)
    assert ranks(job) == [first.digest, other.digest]
    (wanted,) = other.hear().replicas
    assert (wanted.wish, wanted.image_digest) == (DesiredReplicaState.PREPARE, first.digest)
    job.refresh_from_db()
    assert job.status == JobStatus.PREPARING
    settle(*nodes)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    assert ranks(job) == [first.digest] * 2


@pytest.mark.parametrize("digests", [(OLD, OLD), ("", NEW), (NEW, ""), ("", "")])
def test_a_gang_whose_ranks_agree_or_do_not_know_starts_as_ever(digests):
    _, nodes = a_gang(*digests)
    settle(*nodes, rounds=2)
    assert Replica.objects.filter(desired_state=DesiredReplicaState.RUN).count() == 2


@pytest.mark.parametrize(
    ("first", "then"), [(OLD, OLD), (LOCAL, "")], ids=["of a registry", "of the node alone"]
)
def test_a_later_attempt_has_the_bytes_of_the_first(first, then):
    job, (node,) = a_gang(first)
    settle(node)
    assert ranks(job) == [first]
    node.digest = NEW
    node.finish(1)
    job.refresh_from_db()
    settle(node)
    assert ranks(job) == [first, then or NEW]


def test_page_and_rest_have_the_digest_of_each_attempt(client):
    job, (node,) = a_gang(OLD)
    settle(node)
    client.force_login(job.owner)
    (attempt,) = client.get(f"/api/v1/jobs/{job.label}").json()["attempts"]
    assert attempt["image_digest"] == attempt["replicas"][0]["image_digest"] == OLD
    assert client.get(f"/jobs/{job.label}/results").content.decode().count(OLD) == 2
    Replica.objects.update(image_digest=LOCAL)
    page = client.get(f"/jobs/{job.label}/").content.decode()
    assert f"{LOCAL.removeprefix('id:')}, an image of no registry" in page
