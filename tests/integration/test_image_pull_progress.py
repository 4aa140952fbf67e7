"""The pull of a job's image, from the node's report to the page, REST, and what its time means."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone, translation

from agents.contract.documents import ObservedReplica, ReplicaState
from agents.contract.pulls import CAUSE_SENTENCES, ObservedPull, PullCause, pull_failure_message
from agents.contract.wire_messages import to_wire
from portal.desired.services import node_drive
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.pulls import replica_pull, size_text
from portal.web.wording.messages import failure_text, message_text
from scheduler import sweeper
from scheduler.core.model.states import JobStatus
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

HALF = ObservedPull(3, 12, 2 << 30, 8 << 30)
GANG = {"replicas": 2, "topology": "any"}


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def node():
    return a_node("n1", gpus=2)


@pytest.fixture
def job(alice, node) -> Job:
    """Placed on the node, which has its desired document."""
    job = a_job(alice, a_project("vision", alice))
    plan_once()
    node_drive(node_id=node.row.pk)
    return job


def report(node, pull: ObservedPull | None) -> None:
    """All that the node should run is being prepared; each image is being pulled so far."""
    for wanted in node.hear().replicas:
        node.replicas[wanted.id] = ObservedReplica(
            id=wanted.id,
            job=wanted.job,
            attempt=wanted.attempt,
            rank=wanted.rank,
            fence=wanted.fence,
            state=ReplicaState.PREPARING,
            pull=pull,
        )
    node.report()


def pulled(node) -> None:
    """The image has come: the node goes on as it does."""
    node.replicas.clear()
    settle(node)


def page_of(client, job: Job, **headers) -> str:
    return client.get(f"/jobs/{job.label}", follow=True, headers=headers).content.decode()


def status_of(job: Job) -> str:
    job.refresh_from_db()
    return job.status


def test_the_page_shows_how_far_the_pull_is(client, alice, node, job):
    client.force_login(alice)
    report(node, HALF)
    page = page_of(client, job)
    assert "Its image is being pulled on n1" in page
    assert "The image is being pulled: 2.0 GiB of 8.0 GiB, 3 of 12 layers ready" in page
    assert '<progress max="100" value="25"' in page
    report(node, replace(HALF, bytes_done=4 << 30))
    assert '<progress max="100" value="50"' in page_of(client, job)
    pulled(node)
    assert status_of(job) == JobStatus.RUNNING
    assert "image is being pulled" not in page_of(client, job)
    assert Replica.objects.get().pull is None


def test_the_page_shows_it_in_chinese(client, alice, node, job):
    client.force_login(alice)
    report(node, HALF)
    page = page_of(client, job, accept_language="zh-hans")
    assert "正在 n1 上拉取镜像" in page
    assert "正在拉取镜像：已下载 2.0 GiB / 8.0 GiB，12 层中 3 层就绪" in page


def test_replicas_of_one_node_wait_for_one_pull_on_the_page(client, alice):
    client.force_login(alice)
    one, two = a_node("n1"), a_node("n2")
    job = a_job(alice, a_project("vision", alice), **GANG)
    plan_once()
    for node, pull in ((one, HALF), (two, ObservedPull(0, 4, 1 << 20))):
        node_drive(node_id=node.row.pk)
        report(node, pull)
    page = page_of(client, job)
    assert "Its image is being pulled on n1, n2" in page
    assert "1 MiB so far, 0 of 4 layers ready" in page
    assert page.count("percent of the image") == 1, "no bar without a size"


def test_rest_has_the_numbers_and_a_sentence(client, alice, node, job):
    client.force_login(alice)
    report(node, HALF)
    (attempt,) = client.get(f"/api/v1/jobs/{job.label}").json()["attempts"]
    assert attempt["replicas"][0]["pull"] == {
        "layers_done": 3,
        "layers_total": 12,
        "bytes_done": 2 << 30,
        "bytes_total": 8 << 30,
        "tries": 1,
        "max_tries": 1,
        "cause": "",
        "sentence": "The image is being pulled: 2.0 GiB of 8.0 GiB, 3 of 12 layers ready",
    }
    pulled(node)
    (attempt,) = client.get(f"/api/v1/jobs/{job.label}").json()["attempts"]
    assert attempt["replicas"][0]["pull"] is None


def test_a_pause_between_two_tries_says_why(client, alice, node, job):
    client.force_login(alice)
    away = ObservedPull(tries=2, max_tries=6, cause="registry_away", words="<b>refused</b>")
    report(node, away)
    page = page_of(client, job)
    assert "does not answer: &lt;b&gt;refused&lt;/b&gt;. The node tries again soon" in page
    assert "2 of 6 tries have failed" in page
    (pulls,) = re.findall(r'<ul class="stack">(.*?)</ul>', page, re.DOTALL)
    assert "<progress" not in pulls


@pytest.mark.parametrize("cause", [*PullCause, "of a newer agent"])
def test_each_cause_has_words_in_both_languages(node, job, cause):
    report(node, ObservedPull(cause=str(cause), max_tries=6))
    pull = replica_pull(Replica.objects.get(), job.image)
    assert pull is not None and job.image in pull.sentence
    with translation.override("zh-hans"):
        text = message_text(pull.message)
    assert job.image in text
    assert "节点即将重试" in text and "registry" not in text.lower().replace(job.image, "")
    assert set(CAUSE_SENTENCES) == set(PullCause)


def test_a_pull_that_came_further_keeps_the_gang_from_being_late(node, job):
    """The time for preparing counts from the last step of the pull, not from the placement."""
    report(node, HALF)
    late = timezone.now() - timedelta(hours=1)
    Attempt.objects.update(created_at=late)
    sweeper.sweep()
    assert status_of(job) == JobStatus.PREPARING
    Replica.objects.update(pull_moved_at=late)
    report(node, replace(HALF, bytes_done=HALF.bytes_done + 1))
    sweeper.sweep()
    assert status_of(job) == JobStatus.PREPARING
    Replica.objects.update(pull_moved_at=late)
    report(node, ObservedPull(tries=2, max_tries=6, cause="stalled"))
    sweeper.sweep()
    job.refresh_from_db()
    assert job.status != JobStatus.PREPARING, "a failed try is no step"


def test_a_job_whose_image_is_being_pulled_is_cancelled_by_its_nodes_word(client, alice, node, job):
    client.force_login(alice)
    report(node, HALF)
    assert client.post(f"/jobs/{job.label}/cancel").status_code == 302
    node_drive(node_id=node.row.pk)
    node.obey()
    assert status_of(job) == JobStatus.CANCELLED
    node_drive(node_id=node.row.pk)
    assert node.hear().replicas == (), "the node is not to prepare it any more"


def test_the_last_failure_has_its_sentence_in_both_languages(node, job):
    message = pull_failure_message(job.image, PullCause.NOT_FOUND, "manifest unknown")
    report(node, None)
    for key, seen in node.replicas.items():
        node.replicas[key] = replace(
            seen,
            state=ReplicaState.FAILED,
            code="image_pull",
            sentence=message.text,
            message=to_wire(message),
        )
    node.report()
    failure = Attempt.objects.earliest("number").first_failure
    assert failure_text(failure) == message.text
    with translation.override("zh-hans"):
        assert "镜像仓库中没有镜像" in failure_text(failure)
        assert failure_text(failure).endswith("manifest unknown")


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 MiB"), (1, "1 MiB"), (512 << 20, "512 MiB"), (3 << 29, "1.5 GiB")]
)
def test_sizes_are_short(size, text):
    assert size_text(size) == text
