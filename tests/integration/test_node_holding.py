"""A node that holds back: it runs what a restored database does not know, and an admin decides."""

import uuid
from dataclasses import replace

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.contract.documents import ObservedReplica, ReplicaState
from portal.agentapi.node_report import node_report
from portal.allocations.holding import held_replicas, node_allow_mass_removal
from portal.audit.models import AuditEntry, Event
from portal.desired.services import node_drive
from portal.errors import Refused
from portal.inventory.models import Node
from portal.jobs.models import Job, Replica
from scheduler.core.model.states import JobStatus
from scheduler.tasks import plan_once
from tests.support.agent_calls import an_agent, run
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


def a_stranger(job: object = "", **fields: object) -> ObservedReplica:
    """A replica that the portal does not know."""
    job = str(job or uuid.uuid4())
    fields = {"state": ReplicaState.RUNNING, "fence": 9_000} | fields
    return ObservedReplica(id=str(uuid.uuid4()), job=job, **fields)


def restored(*nodes: HonestNode) -> None:
    """As `manage.py restore` leaves the rows of nodes."""
    Node.objects.filter(pk__in=[node.row.pk for node in nodes]).update(restored_at=timezone.now())


def add(node: HonestNode, *replicas: ObservedReplica) -> None:
    node.replicas |= {replica.id: replica for replica in replicas}


def report(node: HonestNode, applied: int) -> Node:
    node_report(node.row.pk, node.observed(), applied)
    node.row.refresh_from_db()
    return node.row


def root() -> Client:
    client = Client()
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    return client


def test_a_node_ahead_of_the_database_gets_no_document_until_an_admin_allows_it():
    agent = an_agent()
    agent.desire(3)
    seen = agent.observed(replicas=(a_stranger(),))
    answers = []

    async def scenario(client):
        await agent.hello(client)
        for _ in range(2):
            answer = await agent.sync(client, observed=seen, applied_revision=7)
            answers.append(answer.json())

    async def decided(client):
        answers.append((await agent.sync(client, observed=seen, applied_revision=7)).json())

    async def ended(client):
        revision = answers[-1]["desired"]["revision"]
        await agent.sync(client, applied_revision=revision)

    run(scenario)
    assert [answer["desired"] for answer in answers] == [None, None]
    node = Node.objects.get()
    assert node.holding_since is not None and node.revision > 7
    assert Event.objects.filter(node=node, code="node_holding").count() == 1
    node_allow_mass_removal(node=node, actor="root")
    run(decided)
    desired = answers[-1]["desired"]
    assert desired["revision"] > 7 and desired["replicas"] == []
    assert Node.objects.get().holding_since is not None, "it still runs the work"
    run(ended)
    node = Node.objects.get()
    assert (node.holding_since, node.held_replicas, node.allow_mass_removal) == (None, [], False)
    assert Event.objects.filter(node=node, code="node_holding_ended").exists()


def test_a_document_that_the_agent_refuses_is_not_sent_again_and_again():
    agent = an_agent()
    agent.desire(3)
    event = {"seq": 1, "type": "agent.holding", "at": "2026-01-01T00:00:00Z"}
    seen = agent.observed(replicas=(a_stranger(), a_stranger(), a_stranger()))
    answers = []

    async def scenario(client):
        await agent.hello(client)
        answers.append((await agent.sync(client, observed=seen, applied_revision=2)).json())
        again = await agent.sync(client, observed=seen, applied_revision=2, events=[event])
        answers.append(again.json())

    run(scenario)
    assert answers[0]["desired"] is not None and answers[1]["desired"] is None
    assert len(held_replicas(Node.objects.get())) == 3


def test_the_planner_leaves_it_alone_and_says_why_with_a_code_of_its_own():
    alice, node = a_user("alice"), a_node("gpu-1", gpus=2)
    add(node, a_stranger())
    restored(node)
    report(node, applied=99)
    job = a_job(alice, a_project("vision", alice))
    plan_once()
    job.refresh_from_db()
    assert (job.status, job.reason["code"]) == (JobStatus.QUEUED, "node_holding")
    assert job.reason["sentence"] == (
        "No node that could run it accepts jobs: gpu-1 holds back: it runs work that the portal "
        "does not know"
    )
    node.replicas.clear()
    report(node, applied=99)
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def test_nothing_is_placed_before_every_node_in_contact_has_reported_what_it_runs():
    """A job that waits in the database may already run on a node."""
    alice, node, other = a_user("alice"), a_node("gpu-1"), a_node("gpu-2")
    restored(node, other)
    job = a_job(alice, a_project("vision", alice))
    add(other, a_stranger(job.uid))
    report(node, applied=0)
    plan_once()
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    assert "until gpu-2 has reported what it runs" in job.reason["sentence"]
    report(other, applied=0)
    plan_once()
    job.refresh_from_db()
    assert (job.status, job.hold_owner) == (JobStatus.QUEUED, "node:gpu-2")
    other.replicas.clear()
    report(other, applied=0)
    settle(node, other)
    job.refresh_from_db()
    assert (job.status, job.hold_owner) == (JobStatus.RUNNING, "")


def test_a_silent_node_does_not_keep_the_others_waiting():
    alice, node, gone = a_user("alice"), a_node("gpu-1"), a_node("gpu-2")
    restored(node, gone)
    Node.objects.filter(pk=gone.row.pk).update(status="unreachable")
    report(node, applied=0)
    job = a_job(alice, a_project("vision", alice))
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def test_what_ended_since_the_backup_is_tried_again_as_a_new_attempt_only():
    alice, node = a_user("alice"), a_node("gpu-1")
    job = a_job(alice, a_project("vision", alice))
    settle(node)
    first = Replica.objects.get()
    assert first.status == "running"
    restored(node)
    node.replicas.clear()
    report(node, applied=99)
    first.refresh_from_db()
    job.refresh_from_db()
    assert first.status == "lost" and Node.objects.get().desired["revision"] > 99
    node_drive(node_id=node.row.pk)
    listed = {replica["id"] for replica in Node.objects.get().desired["replicas"]}
    assert str(first.pk) not in listed, "never the same attempt again"
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    assert Replica.objects.get(status="running").attempt.fence > first.attempt.fence


def test_what_runs_as_the_database_says_goes_on_untouched():
    alice, node = a_user("alice"), a_node("gpu-1")
    job = a_job(alice, a_project("vision", alice))
    settle(node)
    before = dict(node.replicas)
    restored(node)
    report(node, applied=99)
    assert node.row.holding_since is None and node.row.restored_at is None
    settle(node)
    job.refresh_from_db()
    assert (job.status, node.replicas) == (JobStatus.RUNNING, before)
    assert Replica.objects.count() == 1


def test_the_console_shows_what_would_end_and_does_it_once():
    alice, node, client = a_user("alice"), a_node("gpu-1"), root()
    job = a_job(alice, a_project("vision", alice))
    known, unknown = a_stranger(job.uid), a_stranger()
    add(node, known, unknown)
    restored(node)
    report(node, applied=99)
    address = reverse("web:held_work", args=["gpu-1"])
    assert "1 node holds back" in client.get(reverse("web:console")).content.decode()
    listing = client.get(reverse("web:node_list") + "?state=holding").content.decode()
    assert "Holds back" in listing and address in listing
    assert "Holds back" in client.get(reverse("web:cluster")).content.decode()
    page = client.get(address).content.decode()
    assert job.label in page and unknown.job in page and "stops 2 replicas" in page
    client.post(address, {"replica": [known.id]})
    assert not Node.objects.get().allow_mass_removal, "the list on the page was not complete"
    assert client.post(address, {"replica": [known.id, unknown.id]}).status_code == 302
    assert Node.objects.get().allow_mass_removal
    line = AuditEntry.objects.get(action="node_allow_mass_removal")
    assert set(line.after["replicas"]) == {known.id, unknown.id}
    assert "ends these replicas now" in client.get(address).content.decode()


def test_what_an_admin_allows_is_allowed_once():
    node = a_node("gpu-1")
    node_allow_mass_removal(node=node.row, actor="root")
    node_drive(node_id=node.row.pk)
    assert Node.objects.get().desired["allow_mass_removal"] is True
    node.obey()
    node_drive(node_id=node.row.pk)
    assert Node.objects.get().desired["allow_mass_removal"] is False


def test_a_list_that_has_changed_is_refused():
    node = a_node("gpu-1")
    add(node, a_stranger())
    restored(node)
    row = report(node, applied=1)
    with pytest.raises(Refused) as refused:
        node_allow_mass_removal(node=row, actor="root", shown=["another"])
    assert refused.value.code == "version_stale"


def test_rest_shows_the_state_and_what_it_holds(client):
    node, one = a_node("gpu-1"), a_stranger()
    add(node, one, replace(one, id=str(uuid.uuid4()), state=ReplicaState.EXITED))
    restored(node)
    report(node, applied=1)
    client.force_login(a_user("alice"))
    body = client.get("/api/v1/nodes/gpu-1").json()
    assert body["holding_since"] is not None and body["restored_at"] is None
    (held,) = body["held_replicas"]
    assert (held["replica"], held["state"], held["label"]) == (one.id, "running", "")


def test_a_revision_beyond_all_sense_moves_nothing():
    node = a_node("gpu-1")
    restored(node)
    assert report(node, applied=2**62).revision < 2**53
    assert not Job.objects.exists()
