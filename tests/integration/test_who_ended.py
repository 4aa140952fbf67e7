"""A replica that its node ended spends a retry for infrastructure; one that its node may be keeping
alive is never given up, and its job never tried elsewhere."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from django.utils.translation import override

from agents.contract.documents import ReplicaState
from agents.contract.end_causes import EndCause
from agents.contract.message import Message
from agents.contract.wire_messages import to_wire
from portal.desired.services import node_drive
from portal.inventory.models import Node
from portal.inventory.revocation import node_revoke
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Job, Replica, StopReason
from portal.jobs.services import job_cancel
from portal.web.wording.messages import failure_text
from scheduler import sweeper
from scheduler.core.model.states import JobStatus, NodeStatus, ReplicaStatus
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

GANG = {"replicas": 2, "topology": "any"}
# Queued again, and perhaps placed at once.
AGAIN = {JobStatus.QUEUED, JobStatus.PLACED}


def status_of(job: Job) -> str:
    job.refresh_from_db()
    return job.status


def ended_by(node, cause: EndCause) -> None:
    """Its agent reports that `cause` ended what ran there."""
    fields = {"code": str(cause), "sentence": cause.message.text, "message": to_wire(cause.message)}
    node.finish(None, state=ReplicaState.FAILED, **fields)


def silent_for(node, *, seconds: int) -> None:
    """Its lease ended `seconds` ago, and it has made no call for an hour."""
    now = timezone.now()
    columns = {"last_seen_at": now - timedelta(hours=1)}
    Node.objects.filter(pk=node.row.pk).update(
        **columns, lease_until=now - timedelta(seconds=seconds)
    )
    sweeper.sweep()
    node.row.refresh_from_db()
    assert node.row.status == NodeStatus.LOST


def a_running_job(on_lease_end):
    """With a retry; its node, and another one. Both nodes report `on_lease_end`."""
    alice, nodes = a_user(), (a_node("one"), a_node("two"))
    for node in nodes:
        node.on_lease_end = on_lease_end
        node.report()
    job = a_job(alice, a_project("vision", alice), retries={"infrastructure": 1})
    settle(*nodes)
    home = Replica.objects.get().node_id
    return job, *sorted(nodes, key=lambda node: node.row.pk != home)


@pytest.mark.parametrize("cause", EndCause)
def test_what_its_node_ended_is_retried_at_the_cost_of_infrastructure(cause):
    alice = a_user()
    node = a_node()
    retries = {"infrastructure": 1, "user": 1}
    job = a_job(alice, a_project("vision", alice), retries=retries)
    settle(node)
    ended_by(node, cause)
    assert status_of(job) in AGAIN
    assert (job.infrastructure_retries_left, job.user_retries_left) == (0, 1)
    failure = job.attempts.earliest("number").first_failure
    assert (failure["code"], failure["sentence"]) == (str(cause), cause.message.text)
    with override("zh-hans"):
        assert failure_text(failure) != cause.message.text

    settle(node)
    node.finish()
    assert status_of(job) == JobStatus.SUCCEEDED


def test_without_a_retry_left_it_fails_and_the_page_says_that_it_is_not_the_users_code(client):
    alice = a_user()
    node = a_node()
    job = a_job(alice, a_project("vision", alice), retries={"infrastructure": 0})
    settle(node)
    ended_by(node, EndCause.NODE_RESTARTED)
    assert status_of(job) == JobStatus.FAILED
    client.force_login(alice)
    page = client.get(f"/jobs/{job.label}", follow=True).content.decode()
    assert EndCause.NODE_RESTARTED.message.text in page
    assert "Not your code" in page
    client.cookies["django_language"] = "zh-hans"
    page = client.get(f"/jobs/{job.label}", follow=True).content.decode()
    assert "运行期间所在节点关机或重启" in page


def test_a_rank_that_fails_because_another_ranks_node_is_gone_is_not_the_users_fault():
    """It reports its error while the other node still boots."""
    alice = a_user()
    one, two = a_node("one"), a_node("two")
    job = a_job(alice, a_project("vision", alice), **GANG, retries={"infrastructure": 1})
    settle(one, two)
    one.finish(1)
    assert status_of(job) == JobStatus.STOPPING
    ended_by(two, EndCause.NODE_RESTARTED)
    assert status_of(job) in AGAIN
    assert job.infrastructure_retries_left == 0
    assert job.attempts.earliest("number").first_failure["code"] == "node_restarted"


def test_of_two_ranks_that_their_nodes_ended_the_first_is_the_failure():
    alice = a_user()
    nodes = {node.row.pk: node for node in (a_node("one"), a_node("two"), a_node("three"))}
    job = a_job(alice, a_project("vision", alice), **GANG | {"replicas": 3, "device": {"gpus": 1}})
    settle(*nodes.values())
    first, last, middle = (nodes[replica.node_id] for replica in Replica.objects.order_by("rank"))
    first.finish(1)
    ended_by(middle, EndCause.NODE_RESTARTED)
    ended_by(last, EndCause.ENGINE_RESTARTED)
    failure = job.attempts.earliest("number").first_failure
    assert (failure["rank"], failure["code"]) == (2, "node_restarted")


def test_a_rank_whose_container_fails_after_a_program_did_is_not_the_failure():
    """Its node reports what went wrong there, not that it ended the rank."""
    alice = a_user()
    one, two = a_node("one"), a_node("two")
    job = a_job(alice, a_project("vision", alice), **GANG, retries={"infrastructure": 1})
    settle(one, two)
    one.finish(1)
    two.finish(None, state=ReplicaState.FAILED, code="runtime", sentence="the engine went away")
    assert (status_of(job), job.infrastructure_retries_left) == (JobStatus.FAILED, 1)
    assert job.attempts.get().first_failure["exit_code"] == 1


def test_a_rank_that_fails_alone_is_the_users_fault():
    alice = a_user()
    one, two = a_node("one"), a_node("two")
    job = a_job(alice, a_project("vision", alice), **GANG, retries={"infrastructure": 1})
    settle(one, two)
    one.finish(1)
    settle(one, two)
    assert (status_of(job), job.infrastructure_retries_left) == (JobStatus.FAILED, 1)


def test_a_job_waits_for_its_own_grace_period_after_the_lease(settings):
    alice = a_user()
    node = a_node()
    job = a_job(alice, a_project("vision", alice), grace_seconds=600)
    settle(node)
    margin = settings.PLATFORM.lease_margin_seconds
    silent_for(node, seconds=600 + margin - 60)
    assert status_of(job) == JobStatus.RUNNING, "it may still be saving its work"
    silent_for(node, seconds=600 + margin + 1)
    assert Replica.objects.earliest("pk").status == ReplicaStatus.LOST


@pytest.mark.parametrize("word", ["keep", "a word of a newer agent"])
def test_a_replica_that_its_node_may_keep_running_is_never_given_up(word):
    job, home, other = a_running_job(word)
    silent_for(home, seconds=7 * 24 * 3600)
    settle(other)
    assert status_of(job) == JobStatus.RUNNING
    assert Replica.objects.get().status == ReplicaStatus.RUNNING
    assert job.attempts.get().silent_since is not None, "its page says so"


def test_a_node_whose_agent_does_not_report_it_may_keep_its_work():
    alice = a_user()
    node = a_node()
    job = a_job(alice, a_project("vision", alice))
    settle(node)
    facts = Node.objects.get().facts
    facts.pop("on_lease_end")
    Node.objects.update(facts=facts)
    silent_for(node, seconds=7 * 24 * 3600)
    assert status_of(job) == JobStatus.RUNNING


def test_what_a_silent_node_may_have_started_has_no_second_attempt(settings):
    """Its image was being pulled when contact was lost: it may run by now."""
    alice = a_user()
    node = a_node()
    node.on_lease_end = "keep"
    node.report()
    job = a_job(alice, a_project("vision", alice), retries={"infrastructure": 3})
    plan_once()
    node_drive(node_id=node.row.pk)
    assert Replica.objects.get().status == ReplicaStatus.PENDING
    long_ago = timezone.now() - timedelta(days=1)
    job.attempts.update(created_at=long_ago)
    silent_for(node, seconds=1)
    # It had its whole time again from when it fell silent.
    job.attempts.update(silent_since=long_ago)
    sweeper.sweep()
    assert status_of(job) == JobStatus.STOPPING, "it waits for the node's word"
    node.hear()
    seen = node.replicas
    for wanted in node.desired.replicas:
        assert wanted.wish == "stop"
        moved = node._moved(wanted)
        seen[wanted.id] = replace(moved, state=ReplicaState.FAILED, code="never_started")
    node.report()
    assert status_of(job) in AGAIN


def test_a_node_may_run_a_replica_before_it_reports_so():
    """Contact may be lost at that moment, and the portal takes half a minute to notice."""
    alice = a_user()
    node = a_node()
    job = a_job(alice, a_project("vision", alice), retries={"infrastructure": 3})
    plan_once()
    node_drive(node_id=node.row.pk)
    node.row.refresh_from_db()
    assert node.row.status == NodeStatus.ONLINE
    job.refresh_from_db()
    with transaction.atomic():
        job_stop(job=job, stop_reason=StopReason.PREEMPTED, message=Message("preempted"))
    assert status_of(job) == JobStatus.STOPPING, "it waits for the node's word"
    assert Replica.objects.get().desired_state == "stop"


def test_a_cancelled_job_stays_cancelled_whoever_ended_it():
    alice = a_user()
    node = a_node()
    job = a_job(alice, a_project("vision", alice), retries={"infrastructure": 1})
    settle(node)
    job_cancel(job=job, actor="alice")
    ended_by(node, EndCause.ENGINE_RESTARTED)
    assert (status_of(job), job.infrastructure_retries_left) == (JobStatus.CANCELLED, 1)


def test_a_node_that_an_admin_revokes_keeps_no_job():
    job, home, other = a_running_job("keep")
    silent_for(home, seconds=3600)
    assert status_of(job) == JobStatus.RUNNING
    node_revoke(node=home.row, actor="root")
    sweeper.sweep()
    settle(other)
    assert status_of(job) == JobStatus.RUNNING
    assert job.attempts.latest("number").replicas.get().node_id == other.row.pk
