"""A job that may have several numbers of replicas, from the request to its next attempt."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from agents.contract.documents import ReplicaState
from portal.allocations.models import Allocation
from portal.audit.models import Event
from portal.inventory.models import Node
from portal.jobs import lifecycle
from portal.jobs.models import Job
from portal.planning import requests
from portal.planning.planner_input import planner_input
from portal.quotas.models import Quota
from scheduler.core.model.policy import Policy
from scheduler.core.model.states import JobStatus
from tests.support.cli_runner import Person
from tests.support.rows import a_job, a_node, a_project, a_request, a_user, settle

pytestmark = pytest.mark.django_db
GPU = 56_000
GANG = {
    "launcher": "torchrun",
    "device": {"gpus": 1},
    "replicas": {"min": 2, "max": 8},
    "topology": "any",
    "containers": "per-replica",
    "retries": {"infrastructure": 1, "user": 1},
}


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice, gpus=8)


def sizes_of(job):
    return list(job.attempts.order_by("number").values_list("replica_count", flat=True))


def ended(job, node, *, saved, **how):
    """Whatever runs on this node ends so; `saved`: after a checkpoint."""
    if saved:
        job.attempts.filter(ended_at=None).update(saved_at=timezone.now())
    node.finish(**how)
    job.refresh_from_db()
    return job


RESTARTED = {
    "exit_code": None,
    "state": ReplicaState.FAILED,
    "code": "node_restarted",
    "sentence": "its node was restarted",
}


def test_it_starts_with_as_many_as_are_free_and_everybody_counts_them(alice, vision):
    one, two = a_node("n1", gpus=3), a_node("n2", gpus=2)
    job = a_job(alice, vision, **GANG)
    settle(one, two)
    job.refresh_from_db()
    assert (job.status, job.replica_count, sizes_of(job)) == (JobStatus.RUNNING, 2, [5])
    told = [replica for node in (one, two) for replica in node.hear().replicas]
    assert {each.world for each in told} == {5}
    assert sorted(each.rank for each in told) == [0, 1, 2, 3, 4]
    assert all(len(each.rendezvous.peers) == 5 for each in told)
    assert Allocation.objects.live().count() == 5
    assert {quota.used_units for quota in Quota.objects.all()} == {5 * GPU}
    (running,) = planner_input(now=timezone.now(), policy=Policy()).running
    assert (running.job.replicas, len(running.replicas)) == (5, 5)


def test_a_quota_ends_where_it_ends_and_the_least_is_enough(alice, vision):
    small = a_project("small", alice, gpus=3)
    node = a_node("n1", gpus=8)
    job = a_job(alice, small, **GANG)
    settle(node)
    assert sizes_of(job) == [3]
    other = a_job(alice, vision, **GANG)
    settle(node)
    assert sizes_of(other) == [5]


def test_it_waits_for_its_least_number_alone(alice, vision):
    node = a_node("n1", gpus=1)
    other = a_node("n2", gpus=8)
    other.row.schedulable = False
    other.row.save(update_fields=["schedulable"])
    job = a_job(alice, vision, **GANG)
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    assert job.reason["evidence"]["needed"] == 2


def test_a_least_number_that_is_allowed_no_more_is_no_reason_to_wait_for_ever(
    alice, vision, monkeypatch
):
    """Since it was submitted, a rule of its launcher has changed."""
    monkeypatch.setattr(requests, "replica_sizes", lambda request: (3, 4))
    node, other = a_node("n1", gpus=2), a_node("n2", gpus=1)
    Node.objects.filter(pk=other.row.pk).update(schedulable=False)
    job = a_job(alice, vision, **GANG)
    settle(node, other)
    job.refresh_from_db()
    assert job.reason["evidence"]["needed"] == 3
    Node.objects.update(schedulable=True)
    settle(node, other)
    assert sizes_of(job) == [3]


def test_a_lost_rank_that_had_saved_costs_no_retry_and_the_gang_goes_on_with_fewer(
    alice, vision, monkeypatch
):
    diagnosed = []
    monkeypatch.setattr(lifecycle, "ring_diagnoses", lambda: diagnosed.append("rung"))
    one, two = a_node("n1", gpus=3), a_node("n2", gpus=2)
    job = a_job(alice, vision, **GANG)
    settle(one, two)
    one.row.schedulable = False
    one.row.save(update_fields=["schedulable"])
    ended(job, one, saved=True, **RESTARTED)
    settle(one, two)
    job.refresh_from_db()
    assert (job.status, sizes_of(job)) == (JobStatus.RUNNING, [5, 2])
    assert diagnosed, "what it was lost to is found like any other failure"
    assert (job.infrastructure_retries_left, job.user_retries_left) == (1, 1)
    (told,) = Event.objects.filter(noun="job", noun_id=str(job.pk), code="retry")
    assert "spends no retry" in told.sentence
    # The second end without a checkpoint since costs one, and the third is the last.
    for left, status in ((0, JobStatus.RUNNING), (0, JobStatus.FAILED)):
        ended(job, two, saved=False, **RESTARTED)
        settle(one, two)
        job.refresh_from_db()
        assert (job.infrastructure_retries_left, job.status) == (left, status)


def test_a_program_that_fails_spends_the_users_retry(alice, vision):
    node = a_node("n1", gpus=4)
    job = a_job(alice, vision, **GANG)
    settle(node)
    ended(job, node, saved=True, exit_code=1)
    assert (job.infrastructure_retries_left, job.user_retries_left) == (1, 0)


def test_a_job_of_one_size_spends_its_retry_for_a_lost_rank(alice, vision):
    node = a_node("n1", gpus=4)
    job = a_job(alice, vision, **GANG | {"replicas": 2})
    settle(node)
    ended(job, node, saved=True, **RESTARTED)
    assert job.infrastructure_retries_left == 0


def test_it_grows_at_its_place_once_it_has_saved_and_run_for_a_while(alice, vision):
    one, two = a_node("n1", gpus=2), a_node("n2", gpus=2)
    two.row.schedulable = False
    two.row.save(update_fields=["schedulable"])
    job = a_job(alice, vision, **GANG)
    settle(one, two)
    two.row.schedulable = True
    two.row.save(update_fields=["schedulable"])
    settle(one, two)
    assert sizes_of(job) == [2]
    job.attempts.update(saved_at=timezone.now())
    Job.objects.filter(pk=job.pk).update(started_at=timezone.now() - timedelta(hours=1))
    Job.objects.filter(pk=job.pk).update(time_limit_seconds=86_400)
    queued_at = Job.objects.get(pk=job.pk).queued_at
    settle(one, two, rounds=10)
    job.refresh_from_db()
    assert (job.status, sizes_of(job)) == (JobStatus.RUNNING, [2, 4])
    assert (job.queued_at, job.preempted, job.infrastructure_retries_left) == (queued_at, 0, 1)
    first, second = job.attempts.order_by("number")
    assert (first.outcome, second.outcome) == ("resized", "")
    told = [each.sentence for each in Event.objects.filter(noun="job", code="resized")]
    assert told[0].startswith("stopped to start again with more than its 2 replicas")
    assert told[1].startswith("resized: queued again at its original position")


def test_after_a_lost_node_it_waits_for_its_own_devices_and_not_for_the_lost_ones(alice, vision):
    one, two = a_node("n1", gpus=4), a_node("n2", gpus=2)
    job = a_job(alice, vision, **GANG)
    settle(one, two)
    assert sizes_of(job) == [6]
    job.attempts.update(saved_at=timezone.now())
    one.finish(**RESTARTED)
    settle(one, two, rounds=10)
    assert sizes_of(job) == [6, 6]


def test_page_rest_and_command_line_say_how_many_start(alice, vision, tmp_path):
    node = a_node("n1", gpus=4)
    settle(node)
    rest, page = APIClient(), Client()
    rest.force_authenticate(alice)
    page.force_login(alice)
    answer = rest.post("/api/v1/jobs?dry_run=true", a_request(vision, **GANG), format="json").json()
    assert answer["starting_replicas"] == 4
    assert answer["request"]["replicas"] == {"min": 2, "max": 8}
    assert answer["launch"]["environment"]["PET_NNODES"] == "4"
    form = {"project": "vision", "name": "sum", "image": "tessera-example:latest", "key": "once"}
    form |= {"command": "python sum.py", "amount": "gpus", "gpus": "1", "replicas": "2-8"}
    form |= {"launcher": "torchrun", "containers": "per-replica"}
    shown = page.post("/request/preview", form).content.decode()
    assert "It starts with 4 of 2 to 8 replicas" in shown
    shell = Person(alice, tmp_path)
    words = ("--project", "vision", "--image", "i", "--gpus", "1", "--replicas", "2-8")
    words += ("--launcher", "torchrun", "--", "python", "sum.py")
    told = " ".join(shell.output("submit", "--dry-run", *words).split())
    assert "starts at once with 4 of 2 to 8 replicas" in told and "2-8 x 1 GPU" in told
    job = a_job(alice, vision, **GANG)
    settle(node)
    shown = page.get(f"/jobs/{job.label}/").content.decode()
    assert "4 replicas of 2 to 8." in shown and f"/jobs/{job.label}/ranks" in shown
    row = rest.get(f"/api/v1/jobs/{job.label}").json()
    assert (row["replicas"], row["attempts"][0]["placed_replicas"]) == (2, 4)
    assert "2-8, 4 in the last attempt" in shell.output("show", job.label)


def test_approval_is_asked_for_the_most_that_it_may_have(alice, vision):
    a_node("n1", gpus=8)
    vision.approval_units = 4 * GPU
    vision.save()
    assert a_job(alice, vision, **GANG).status == JobStatus.AWAITING_APPROVAL
    assert a_job(alice, vision, **GANG | {"replicas": 2}).status == JobStatus.QUEUED
