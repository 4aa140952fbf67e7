"""Nodes in the console: cordon, drain with every job named, and what a pass would partition."""

import re

import pytest
from django.test import Client

from portal.allocations.draining import jobs_on_node, node_drain
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.inventory.models import Gpu, Node
from portal.jobs.services import job_cancel
from scheduler.core.model.states import GpuHealth, JobStatus, NodeStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


@pytest.fixture
def boss():
    return a_user("root", is_superuser=True, is_staff=True)


@pytest.fixture
def root(boss) -> Client:
    client = Client()
    client.force_login(boss)
    return client


def running(alice, vision, node, **fields):
    job = a_job(alice, vision, **fields)
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    return job


def test_a_node_is_cordoned_with_a_reason_and_what_runs_there_is_listed(alice, vision, root):
    node = a_node("n1")
    job = running(alice, vision, node)
    assert root.post("/console/nodes/n1/drain", {"step": "cordon", "reason": ""}).status_code == 400
    root.post("/console/nodes/n1/drain", {"step": "cordon", "reason": "new cables"})
    row = Node.objects.get()
    assert (row.schedulable, row.cordon_reason, row.cordon_actor) == (False, "new cables", "root")
    page = root.get("/console/nodes/n1/drain").content.decode()
    assert "1 job runs on n1" in page and job.label in page and "new cables" in page
    assert AuditEntry.objects.get().action == "node_cordon"
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING, "a cordon stops nothing"


def test_nothing_stops_before_every_job_is_named(alice, vision, boss, root):
    node = a_node("n1", gpus=2)
    one = running(alice, vision, node)
    two = running(alice, vision, node)
    root.post("/console/nodes/n1/drain", {"step": "cordon", "reason": "fan"})
    for stop in ([], [one.label], [one.label, "J-999"]):
        answer = root.post("/console/nodes/n1/drain", {"step": "stop", "stop": stop})
        assert answer.status_code == 400
    with pytest.raises(Refused, match="drain_stale"):
        node_drain(node=node.row, actor=boss, reason="fan", stop=[one.label])
    for job in (one, two):
        job.refresh_from_db()
        assert job.status == JobStatus.RUNNING


def test_who_read_an_older_node_sees_both_versions_and_changes_nothing(root):
    a_node("n1")
    page = "/console/nodes/n1/drain"
    (seen,) = re.findall(r'name="version" value="(\w+)"', root.get(page).content.decode())
    answer = root.post(page, {"step": "cordon", "reason": "first fan", "version": seen})
    assert answer.status_code == 302
    answer = root.post(page, {"step": "cordon", "reason": "second fan", "version": seen})
    said = answer.content.decode()
    assert answer.status_code == 412
    assert "This has changed since you opened it" in said
    assert "first fan" in said and "second fan" in said
    assert Node.objects.get().cordon_reason == "first fan"


def test_what_is_named_is_stopped_with_its_grace_and_waits_again_where_it_may(alice, vision, root):
    node = a_node("n1", gpus=2)
    kept = running(alice, vision, node, retries={"infrastructure": 2, "user": 0})
    way = running(alice, vision, node, preemptible=True)
    last = running(alice, vision, node, retries={"infrastructure": 0, "user": 0})
    root.post("/console/nodes/n1/drain", {"step": "cordon", "reason": "fan"})
    stop = [kept.label, way.label, last.label]
    root.post("/console/nodes/n1/drain", {"step": "stop", "stop": stop})
    for job in (kept, way, last):
        job.refresh_from_db()
        assert job.status == JobStatus.STOPPING
    settle(node)
    for job in (kept, way, last):
        job.refresh_from_db()
    assert [kept.status, way.status, last.status] == ["queued", "queued", "failed"]
    assert kept.infrastructure_retries_left == 1, "it costs a retry, as a lost node does"
    assert way.preempted == 1
    last_attempt = last.attempts.latest("number")
    assert "root drains n1: fan" in last_attempt.first_failure["sentence"]
    line = AuditEntry.objects.get(action="node_drain")
    assert line.after["stopped"] == sorted(stop) and line.actor == "root"
    assert "Nothing runs on n1" in root.get("/console/nodes/n1/drain").content.decode()


def test_a_drained_job_can_still_be_cancelled_for_good(alice, vision, boss):
    node = a_node("n1")
    job = running(alice, vision, node, retries={"infrastructure": 2, "user": 0})
    node_drain(node=node.row, actor=boss, reason="fan", stop=[job.label])
    job_cancel(job=job, actor="alice")
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.CANCELLED


def test_a_gang_on_two_nodes_is_listed_with_the_other_one(alice, vision):
    nodes = [a_node("n1"), a_node("n2")]
    job = a_job(alice, vision, device={"gpus": 1}, replicas=2)
    settle(*nodes)
    (one,) = jobs_on_node(nodes[0].row)
    assert (one.job, one.replicas, one.other_nodes) == (job, 1, ("n2",))


def test_only_platform_admins_drain(alice, vision, boss):
    node = a_node("n1")
    client = Client()
    client.force_login(alice)
    for page in ("/console/nodes/", "/console/nodes/n1/drain", "/console/nodes/n1/preview"):
        assert client.get(page).status_code == 404
    assert client.post("/console/nodes/n1/uncordon").status_code == 404
    with pytest.raises(Refused, match="forbidden"):
        node_drain(node=node.row, actor=alice, reason="mine")
    assert Node.objects.get().schedulable


def test_uncordon_lets_it_take_work_again(boss, root):
    node = a_node("n1")
    node_drain(node=node.row, actor=boss, reason="fan")
    assert root.get("/console/nodes/n1/uncordon").status_code == 405
    root.post("/console/nodes/n1/uncordon")
    assert Node.objects.get().schedulable
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["node_cordon", "node_uncordon"]


def test_lists_by_state_show_just_those_nodes(root):
    names = ("away", "blocked", "cordoned", "faulted", "well")
    nodes = {name: a_node(f"node-{name}").row for name in names}
    Node.objects.filter(pk=nodes["away"].pk).update(status=NodeStatus.UNREACHABLE)
    Node.objects.filter(pk=nodes["blocked"].pk).update(facts={"blocks": ["no toolkit"]})
    Node.objects.filter(pk=nodes["cordoned"].pk).update(schedulable=False, cordon_reason="fan")
    Gpu.objects.filter(node=nodes["faulted"]).update(
        health=GpuHealth.FAULTED, health_reason="XID 79"
    )
    for state in ("away", "blocked", "cordoned", "faulted"):
        page = root.get(f"/console/nodes/?state={state}").content.decode()
        shown = [name for name in names if f"node-{name}<" in page]
        assert shown == [state]
    everything = root.get("/console/nodes/").content.decode()
    assert "XID 79" in everything and "no toolkit" in everything and "5 nodes" in everything


def test_a_node_that_is_not_there_has_no_pages(root):
    assert root.get("/console/nodes/n9/drain").status_code == 404
    assert root.get("/console/nodes/n9/preview").status_code == 404


def test_the_preview_of_a_quiet_node_says_so(root):
    a_node("n1")
    page = root.get("/console/nodes/n1/preview").content.decode()
    assert "would not change n1" in page


def test_the_empty_list_says_how_a_node_comes(root):
    assert "No nodes yet" in root.get("/console/nodes/").content.decode()


def test_on_a_large_cluster_the_planner_is_asked_only_by_the_link(root, monkeypatch):
    monkeypatch.setattr("portal.web.console.planner.MAX_NODES", 0)
    a_node("n1")
    page = root.get("/console/nodes/n1/preview").content.decode()
    assert "a planning pass takes several seconds" in page and 'href="?ask=1"' in page
    assert "would not change n1" in root.get("/console/nodes/n1/preview?ask=1").content.decode()


def test_nodes_are_found_by_their_name_and_come_in_pages(root, monkeypatch):
    monkeypatch.setattr("portal.web.console.nodes.PAGE_SIZE", 2)
    for name in ("a1", "a2", "a3", "b1"):
        a_node(name)
    first = root.get("/console/nodes/?q=a")
    assert [row.node.name for row in first.context["rows"]] == ["a1", "a2"]
    assert "3 nodes" in first.content.decode()
    second = root.get("/console/nodes/?q=a&page=2")
    assert [row.node.name for row in second.context["rows"]] == ["a3"]
