"""Gangs of which a rank fails, does not come, comes twice or loses its node: none stays half, each
attempt meets anew, and it is told which rank was the first."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.contract.documents import DesiredReplicaState, ReplicaState
from portal.desired.documents import compile_desired
from portal.diagnosis.services import diagnoses_refresh
from portal.inventory.models import Node
from portal.jobs.absent_ranks import unjoined_gangs_stop
from portal.jobs.models import OWN_NODES, Attempt, Job, Replica
from portal.sites.silence import silence_note
from scheduler import sweeper
from scheduler.core.model.states import JobStatus, ReplicaStatus
from scheduler.tasks import plan_once
from tests.support.node_sessions import session_open, sync
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = timezone.now() - timedelta(hours=1)


@pytest.fixture
def nodes():
    return a_node("n1"), a_node("n2")


@pytest.fixture
def job(nodes) -> Job:
    alice = a_user()
    home = a_project("vision", alice)
    gang = {"device": {"gpus": 1}, "replicas": 2, "topology": "any"}
    return a_job(alice, home, retries={"infrastructure": 1}, **gang)


def status_of(job: Job) -> str:
    job.refresh_from_db()
    return job.status


def half_started(job: Job, *nodes) -> None:
    """Both ranks are ready and told to run; only that of the first node does."""
    settle(*nodes, rounds=1)
    one, two = nodes
    assert set(Replica.objects.values_list("desired_state", flat=True)) == {"run"}
    one.obey()
    assert two.replicas and status_of(job) == JobStatus.RUNNING


def test_a_rank_that_never_joins_ends_the_attempt_and_is_named(job, nodes):
    one, two = nodes
    half_started(job, one, two)
    sweeper.sweep()
    assert status_of(job) == JobStatus.RUNNING, "it still has time"
    Job.objects.update(started_at=LONG_AGO)
    sweeper.sweep()
    assert status_of(job) == JobStatus.STOPPING
    settle(one, two)
    assert status_of(job) == JobStatus.RUNNING
    first, second = job.attempts.order_by("number")
    late = first.replicas.get(node=two.row)
    assert (first.first_failure["rank"], first.first_failure["code"]) == (late.rank, "never_joined")
    assert f"rank {late.rank} on n2 did not start within 300 s" in first.first_failure["sentence"]
    assert second.first_failure is None
    assert (job.user_retries_left, job.infrastructure_retries_left) == (0, 0)
    diagnoses_refresh()
    first.refresh_from_db()
    assert first.finding["cause"] == "rank_absent"


def out_of_contact(node, since) -> None:
    """It last called then, and its lease goes on for long."""
    session_open(node)
    later = timezone.now() + timedelta(hours=1)
    Node.objects.filter(pk=node.row.pk).update(last_seen_at=since, lease_until=later)


def test_a_rank_gets_its_whole_time_again_once_its_node_is_back(job, nodes):
    one, two = nodes
    half_started(job, one, two)
    out_of_contact(two, LONG_AGO)
    Job.objects.update(started_at=LONG_AGO)
    sweeper.sweep()
    assert Node.objects.get(pk=two.row.pk).status == "lost"
    assert status_of(job) == JobStatus.RUNNING, "it has fallen silent just now"
    sync(two)
    sweeper.sweep()
    assert status_of(job) == JobStatus.RUNNING, "it has just come back"
    two.obey()
    sweeper.sweep()
    assert status_of(job) == JobStatus.RUNNING
    assert set(Replica.objects.values_list("status", flat=True)) == {ReplicaStatus.RUNNING}


@pytest.mark.parametrize("phase", ["away", "back"])
def test_a_rank_that_does_not_come_after_an_outage_either_is_named(phase, job, nodes):
    one, two = nodes
    half_started(job, one, two)
    out_of_contact(two, LONG_AGO)
    Job.objects.update(started_at=LONG_AGO)
    sweeper.sweep()
    begun = Attempt.objects.get().silent_since
    if phase == "back":
        sync(two)
        sweeper.sweep()
        begun = Node.objects.get(pk=two.row.pk).contact_since
    unjoined_gangs_stop(now=begun + timedelta(seconds=299), limit_seconds=300)
    assert status_of(job) == JobStatus.RUNNING
    unjoined_gangs_stop(now=begun + timedelta(seconds=301), limit_seconds=300)
    assert status_of(job) == JobStatus.STOPPING
    late = job.attempts.get().first_failure["rank"]
    assert late == Replica.objects.get(node=two.row).rank


def test_a_rank_whose_node_comes_and_goes_has_no_more_time_than_absences_take(job, nodes):
    one, two = nodes
    half_started(job, one, two)
    now = timezone.now()
    Job.objects.update(started_at=LONG_AGO)
    attempt = Attempt.objects.get()
    for absence in (140, 150):
        silence_note(site=OWN_NODES, silent={attempt.pk: "n2"}, at=now)
        now += timedelta(seconds=absence)
        silence_note(site=OWN_NODES, silent={}, at=now)
        Node.objects.filter(pk=two.row.pk).update(contact_since=now)
    unjoined_gangs_stop(now=now, limit_seconds=300)
    assert status_of(job) == JobStatus.RUNNING, "290 s of absence"
    Attempt.objects.update(silent_since=now)
    silence_note(site=OWN_NODES, silent={}, at=now + timedelta(seconds=10))
    unjoined_gangs_stop(now=now + timedelta(seconds=11), limit_seconds=300)
    assert status_of(job) == JobStatus.STOPPING


def test_a_rank_that_prepares_through_an_outage_has_its_whole_time_again(job, nodes):
    one, two = nodes
    plan_once()
    settle(one, rounds=1)
    out_of_contact(two, LONG_AGO)
    Attempt.objects.update(created_at=LONG_AGO)
    sync(two)
    sweeper.sweep()
    assert status_of(job) == JobStatus.PREPARING
    settle(one, two)
    assert (status_of(job), job.attempts.count()) == (JobStatus.RUNNING, 1)


def test_a_rank_is_late_even_if_another_one_has_just_come_back(job, nodes):
    one, two = nodes
    half_started(job, one, two)
    Node.objects.filter(pk=one.row.pk).update(contact_since=timezone.now())
    Job.objects.update(started_at=LONG_AGO)
    sweeper.sweep()
    assert status_of(job) == JobStatus.STOPPING


def test_a_rank_that_is_not_ready_in_time_is_named(job, nodes):
    one, two = nodes
    plan_once()
    settle(one, rounds=1)
    assert status_of(job) == JobStatus.PREPARING
    Attempt.objects.update(created_at=LONG_AGO)
    sweeper.sweep()
    attempt = job.attempts.earliest("number")
    late = attempt.replicas.get(node=two.row)
    assert attempt.first_failure["code"] == "not_ready"
    sentence = f"rank {late.rank} on n2 was not ready within 900 s"
    assert attempt.first_failure["sentence"] == sentence
    settle(one, two)
    assert (status_of(job), job.attempts.count()) == (JobStatus.RUNNING, 2)


def test_a_gang_whose_ranks_all_run_has_no_limit_but_its_own(job, nodes):
    settle(*nodes)
    Job.objects.update(started_at=LONG_AGO)
    sweeper.sweep()
    assert status_of(job) == JobStatus.RUNNING


def test_each_attempt_meets_where_its_own_rank_0_offers(job, nodes):
    """The node has changed its mind: what the first attempt was told is worth nothing now."""
    settle(*nodes)
    met = meetings(nodes)
    nodes[0].finish(state=ReplicaState.FAILED, exit_code=None, code="runtime", sentence="away")
    for node in nodes:
        settle(node, rounds=1)
    for node in nodes:
        node.replicas = {key: replace(r, port=31_000) for key, r in node.replicas.items()}
        node.report()
    settle(*nodes)
    assert (status_of(job), job.attempts.count()) == (JobStatus.RUNNING, 2)
    again = meetings(nodes)
    assert len(met) == len(again) == 1
    assert not met & again, "the second attempt was told where the first one met"


def meetings(nodes) -> set[tuple[int, str, int]]:
    """Attempt, address and port that the documents of these nodes name."""
    found = [r for node in nodes for r in compile_desired(node.row).replicas if r.rendezvous]
    return {(r.attempt, r.rendezvous.address, r.rendezvous.port) for r in found}


def test_a_rank_that_comes_twice_is_not_taken_from_the_node_that_has_it(job, nodes):
    """A second machine says that it runs the rank too, and that it failed there."""
    one, two = nodes
    settle(one, two)
    (mine,) = one.replicas.values()
    two.replicas[mine.id] = replace(mine, state=ReplicaState.EXITED, exit_code=1)
    two.report()
    assert status_of(job) == JobStatus.RUNNING
    assert set(Replica.objects.values_list("status", flat=True)) == {ReplicaStatus.RUNNING}
    settle(one, two)
    assert mine.id not in two.replicas, "it is told to let go of it"
    assert status_of(job) == JobStatus.RUNNING


def test_a_node_that_leaves_while_the_ranks_meet_takes_the_whole_attempt_with_it(job, nodes):
    one, two = nodes
    half_started(job, one, two)
    Node.objects.filter(pk=two.row.pk).update(last_seen_at=LONG_AGO, lease_until=LONG_AGO)
    sweeper.sweep()
    assert status_of(job) == JobStatus.STOPPING
    first = job.attempts.get()
    wishes = {r.wish for r in compile_desired(one.row).replicas}
    assert wishes == {DesiredReplicaState.STOP}, "the rank that waits for it is not left alone"
    settle(one)
    assert status_of(job) == JobStatus.QUEUED, "no half gang starts on the node that is left"
    third = a_node("n3")
    settle(one, third)
    assert status_of(job) == JobStatus.RUNNING
    first.refresh_from_db()
    assert first.first_failure["status"] == ReplicaStatus.LOST
    assert first.first_failure["rank"] == first.replicas.get(node=two.row).rank
