"""A gang over several nodes has a network of its own, until no node has anything left of it."""

from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from agents.contract.gang_network import NodeOverlay
from agents.contract.message import Message
from portal.desired.documents import documents_compile
from portal.desired.services import node_drive
from portal.gang_networks.models import AttemptNetwork, NetworkBlock
from portal.gang_networks.services import gang_networks_release
from portal.inventory.models import Node
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Job, StopReason
from portal.jobs.services import job_cancel
from scheduler.core.model.states import JobStatus, NodeStatus
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
KEYS = {name: 42 * name + "A=" for name in "abcdef"}


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


def joining(name, number, **columns):
    node = a_node(name)
    node.address, node.overlay = f"192.0.2.{number}", NodeOverlay("wireguard", 14_789, KEYS[name])
    for column, value in columns.items():
        setattr(node, column, value)
    node.report()
    return node


@pytest.fixture
def pair():
    other = NodeOverlay("wireguard", 14_790, KEYS["b"], 1_350)
    return joining("a", 1), joining("b", 2, overlay=other)


def a_gang(alice, vision, replicas=2, **fields):
    return a_job(alice, vision, replicas=replicas, device={"gpus": 1}, topology="any", **fields)


def network_of(node):
    (replica,) = node.hear().replicas
    return replica.gang_network


def test_each_node_gets_the_network_with_all_ranks_and_how_their_nodes_are_reached(
    alice, vision, pair
):
    job = a_gang(alice, vision)
    settle(*pair)
    one, two = map(network_of, pair)
    assert one.id == two.id == AttemptNetwork.objects.get().number
    assert (one.kind, one.mtu, one.subnet) == (two.kind, 1_350, two.subnet)
    assert one.peers == two.peers
    assert IPv4Network(one.subnet).subnet_of(IPv4Network(settings.PLATFORM.gang_network_range))
    first, second = sorted(pair, key=lambda node: node.hear().replicas[0].rank)
    assert [peer.node_address for peer in one.peers] == [first.address, second.address]
    assert [peer.public_key for peer in one.peers] == [
        first.overlay.public_key,
        second.overlay.public_key,
    ]
    assert [peer.address for peer in one.peers] == [
        network_of(first).address,
        network_of(second).address,
    ]
    assert [peer.hostname for peer in one.peers] == [
        f"tessera-{str(job.uid)[:13]}-1-{rank}" for rank in (0, 1)
    ]


def test_the_page_of_the_job_shows_the_address_of_each_rank(alice, vision, pair, client):
    job = a_gang(alice, vision)
    settle(*pair)
    client.force_login(alice)
    page = client.get(f"/jobs/{job.label}/").content.decode()
    for peer in network_of(pair[0]).peers:
        assert f"<code>{peer.address}</code>" in page
    assert f"<code>{AttemptNetwork.objects.get().subnet}</code>" in page


def test_a_job_that_needs_none_has_none_and_costs_no_statement(alice, vision):
    joining("a", 1, gpus=2)
    a_gang(alice, vision)
    a_job(alice, vision)
    with CaptureQueriesContext(
        connection,
    ) as seen:
        plan_once()
    assert not [q["sql"] for q in seen if 'FROM "gang_networks' in q["sql"]][1:], "one for a gang"
    assert not AttemptNetwork.objects.exists()
    other = a_node("plain")
    a_job(alice, vision)
    settle(other)
    assert "gang_network" not in str(Node.objects.get(pk=other.row.pk).desired)


def test_the_ranks_of_gangs_are_read_once_for_all_that_documents_say_of_them(alice, vision, pair):
    """Where they meet, how they are reached, and whether they use RDMA."""
    a_gang(alice, vision)
    settle(*pair)
    nodes = list(Node.objects.all())
    with CaptureQueriesContext(connection) as seen:
        documents_compile(nodes)
    assert len(seen) == 4, "GPUs with their slices, devices, ranks, image"


def test_it_is_kept_until_every_node_has_reported_its_replica_gone(alice, vision, pair):
    job = a_gang(alice, vision)
    settle(*pair)
    job_cancel(job=Job.objects.get(pk=job.pk), actor="alice")
    here, away = pair
    for _ in range(4):
        node_drive(node_id=here.row.pk)
        here.obey()
        node_drive(node_id=away.row.pk)
    away.obey()  # hears of the stop, and ends its process
    settle(here)
    assert Job.objects.get().status == JobStatus.CANCELLED
    gang_networks_release()
    assert AttemptNetwork.objects.exists(), "one node may have it still"
    settle(*pair)
    assert gang_networks_release() == 1
    assert not NetworkBlock.objects.exists()


def test_a_new_attempt_has_another_network(alice, vision, pair):
    job = a_gang(alice, vision)
    settle(*pair)
    before = network_of(pair[0])
    (row,) = Job.objects.filter(pk=job.pk)
    with transaction.atomic():
        job_stop(job=row, stop_reason=StopReason.PREEMPTED, message=Message("for a test"))
    settle(*pair, rounds=12)
    after = network_of(pair[0])
    assert before.id != after.id
    assert after.peers[0].hostname.endswith("-2-0")


def test_the_database_refuses_a_second_owner_of_an_address_or_a_number(alice, vision, pair):
    a_gang(alice, vision)
    settle(*pair)
    network = AttemptNetwork.objects.get()
    block = network.blocks.first().block
    for make in (
        lambda: NetworkBlock.objects.create(block=block, network=network),
        lambda: AttemptNetwork.objects.create(
            attempt=network.attempt, number=network.number, subnet="10.0.0.0/29", kind="x", mtu=1
        ),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            make()


def test_a_changed_key_reaches_the_other_nodes_of_the_gang(alice, vision, pair):
    a_gang(alice, vision)
    settle(*pair)
    here, away = pair
    here.overlay = NodeOverlay("wireguard", 14_789, KEYS["c"])
    here.report()
    settle(away, rounds=1)
    assert KEYS["c"] in [peer.public_key for peer in network_of(away).peers]


def test_a_node_with_another_address_gets_its_own_in_the_answer_to_its_report(alice, vision, pair):
    a_gang(alice, vision)
    settle(*pair)
    here, _ = pair
    here.address = "192.0.2.9"
    here.report()
    (replica,) = here.hear().replicas
    assert replica.gang_network.peers[replica.rank].node_address == "192.0.2.9"


@pytest.mark.parametrize("overlay", [None, NodeOverlay("vxlan", 14_789)])
def test_a_node_that_joins_gangs_in_another_way_is_in_none_with_others_whatever_it_reports(
    alice, vision, overlay
):
    """Both report one fabric."""
    nodes = joining("a", 1), joining("b", 2, overlay=overlay)
    gang = a_gang(alice, vision)
    settle(*nodes)
    gang.refresh_from_db()
    assert gang.status == JobStatus.QUEUED
    single = a_job(alice, vision, device={"gpus": 1})
    settle(*nodes)
    single.refresh_from_db()
    assert single.status == JobStatus.RUNNING, "others go on"


def test_a_node_whose_address_cannot_be_used_keeps_its_gangs():
    node = joining("a", 1, address="169.254.169.254")
    row = Node.objects.get(pk=node.row.pk)
    assert not {"address", "overlay"} & row.facts.keys()
    assert row.facts["joining_problem"]["values"] == {"address": "169.254.169.254"}
    assert row.fabric != "test"


def test_a_key_of_another_node_and_none_are_refused():
    joining("a", 1)
    thief = joining("b", 2, overlay=NodeOverlay("wireguard", 14_789, KEYS["a"]))
    keyless = joining("c", 3, overlay=NodeOverlay("wireguard", 14_789, "AAAA"))
    for node in (thief, keyless):
        row = Node.objects.get(pk=node.row.pk)
        assert "overlay" not in row.facts
        assert row.facts["joining_problem"]


def test_the_key_of_a_retired_node_may_be_that_of_its_successor():
    """Its machine enrolled anew, with the folder that it had."""
    former = joining("a", 1)
    Node.objects.filter(pk=former.row.pk).update(status=NodeStatus.RETIRED)
    successor = joining("b", 1, overlay=former.overlay)
    row = Node.objects.get(pk=successor.row.pk)
    assert row.facts["overlay"]["public_key"] == KEYS["a"]
    assert "joining_problem" not in row.facts


def small(prefix="10.213.0.0/29"):
    return override_settings(PLATFORM=replace(settings.PLATFORM, gang_network_range=prefix))


def test_without_free_addresses_it_waits_and_the_reason_names_the_setting(alice, vision):
    nodes = [joining(name, number) for number, name in enumerate("abcd")]
    with small():
        first, second = a_gang(alice, vision), a_gang(alice, vision)
        settle(*nodes)
        second.refresh_from_db()
        assert second.status == JobStatus.QUEUED
        assert second.reason["code"] == "topology"
        assert "TESSERA_GANG_NETWORK_RANGE" in str(second.reason)
        third = a_job(alice, vision, device={"gpus": 1})
        settle(*nodes)
        third.refresh_from_db()
        assert third.status == JobStatus.RUNNING, "others go on"
        job_cancel(job=Job.objects.get(pk=first.pk), actor="alice")
        settle(*nodes)
        assert gang_networks_release() == 1
        settle(*nodes)
        second.refresh_from_db()
        assert second.status == JobStatus.RUNNING


def test_a_gang_of_several_sizes_takes_one_that_needs_no_addresses_where_none_are_free(
    alice, vision
):
    nodes = [joining(name, number) for number, name in enumerate("abcd")]
    with small():
        a_gang(alice, vision)
        settle(*nodes)
        open_size = a_gang(alice, vision, replicas={"min": 1, "max": 2})
        settle(*nodes)
    open_size.refresh_from_db()
    assert open_size.status == JobStatus.RUNNING
    assert open_size.attempts.get().replica_count == 1
