"""Gangs over two engines on machines of their own: who reaches whom, and what is left."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agents.contract.codec import encode
from agents.contract.documents import DesiredReplica
from agents.contract.gang_network import OverlayKind
from agents.overlay.names import replica_mac
from agents.runtime.base import RuntimeFailure
from tests.contract.replicas import Watch, whole_log
from tests.docker.gang_over_engines import Gang, a_gang_over
from tests.docker.gang_programs import GLOO_SUM, LISTEN, REACHED, SEND, SUM, link_packet
from tests.docker.two_engines import (
    METADATA,
    NOTHING,
    PORT,
    EngineMachine,
    two_engines,
)
from tests.environment.base_images import ROOT
from tests.environment.programs import Program
from tests.services.real_python import python_with

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PORTS = (80, 4_242, 4_789, PORT, 29_500)
SERVICE = 8_099


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Iterator[tuple[EngineMachine, EngineMachine]]:
    with two_engines(tmp_path_factory.mktemp("machines")) as machines:
        yield machines


def a_listening_gang(pair, kind=OverlayKind.VXLAN) -> Gang:
    gang = a_gang_over(pair, LISTEN, *map(str, PORTS), kind=kind)
    gang.prepare()
    gang.start()
    for _, runtime, replica in gang.each():
        Watch(runtime).says(replica, b"up")
    return gang


def with_rank_0(replica: DesiredReplica, **fields) -> DesiredReplica:
    """Whose gang knows its first rank otherwise."""
    network = replica.gang_network
    assert network
    peers = (replace(network.peers[0], **fields), *network.peers[1:])
    return replace(replica, gang_network=replace(network, peers=peers))


def left_over(pair) -> list:
    return [machine.left_over() for machine in pair]


@pytest.mark.parametrize("kind", list(OverlayKind))
def test_a_gang_adds_up_over_two_engines_and_leaves_nothing(pair, kind):
    gang = a_gang_over(pair, SUM, kind=kind)
    gang.prepare()
    gang.start()
    for _, runtime, replica in gang.each():
        status = Watch(runtime).ended(replica)
        assert status.exit_code == 0, whole_log(runtime, replica.id)
    assert whole_log(gang.runtimes[0], gang.replicas[0].id) == b"sum 3\n"
    gang.remove()
    assert left_over(pair) == [NOTHING, NOTHING]


@pytest.mark.on_demand
def test_pytorch_reduces_by_gloo_over_two_engines(pair):
    """With this machine's Python, in the networks of the two containers."""
    python = python_with("torch")
    gang = a_listening_gang(pair)
    place = {"MASTER_ADDR": gang.addresses()[0], "MASTER_PORT": "29600"}
    place |= {"WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "eth0"}
    ranks = []
    for rank in (0, 1):
        with gang.container(rank) as container:
            enter = ["nsenter", "--target", str(container.attrs["State"]["Pid"]), "--net"]
        ranks.append(
            subprocess.Popen(
                [*enter, python, "-c", GLOO_SUM],
                env=os.environ | place | {"RANK": str(rank)},
                stdout=subprocess.PIPE,
            )
        )
    assert [each.communicate(timeout=120)[0] for each in ranks] == [b"3.0\n", b"3.0\n"]
    gang.remove()


def test_a_gang_reaches_itself_and_neither_another_nor_the_nodes_nor_the_metadata(pair):
    one, other = a_listening_gang(pair), a_listening_gang(pair)
    services = [
        Program(
            [*machine.enter, sys.executable, "-c", LISTEN, str(SERVICE)],
            log=machine.home / "service.log",
            environ=os.environ,
        )
        for machine in pair
    ]
    for machine, service in zip(pair, services, strict=True):
        service.wait_ready(lambda at=machine.home: "up" in (at / "service.log").read_text())
    own, others = one.places(PORTS), other.places(PORTS)
    nodes = [machine.address for machine in pair]
    gateways = [gang.replicas[0].gang_network.subnet.replace("0/24", "1") for gang in (one, other)]
    shut = [f"{host}:{SERVICE}" for host in (*nodes, *gateways, METADATA, "172.17.0.1")]
    told = pair[0].run(sys.executable, "-c", REACHED, *shut)
    assert f"{METADATA}:{SERVICE}" in told, "a node reaches it, or this test shows nothing"
    try:
        for rank in (0, 1):
            assert one.reached(rank, *own) == set(own), "all ports of the gang"
            assert one.reached(rank, *others, *shut) == set()
            assert other.reached(rank, *own, *shut) == set()
    finally:
        for service in services:
            service.kill()
        one.remove()
        other.remove()
    assert left_over(pair) == [NOTHING, NOTHING]


def test_a_replica_cannot_send_a_packet_into_another_gangs_link(pair):
    """From its node's address it would be one: Docker hides containers behind it."""
    victim, attacker = a_listening_gang(pair), a_listening_gang(pair)
    network = victim.replicas[1].gang_network
    mac, own = replica_mac(network.address), victim.replicas[0].gang_network.address

    def packet(words: bytes) -> str:
        return link_packet(network.id, mac, own, network.address, 4_242, words)

    for machine in pair:
        attacker.inside(0, SEND, machine.address, str(PORT), packet(b"forged"))
        attacker.inside(1, SEND, machine.address, str(PORT), packet(b"forged"))
    pair[0].run(sys.executable, "-c", SEND, pair[1].address, str(PORT), packet(b"of its node"))
    log = Watch(victim.runtimes[1]).says(victim.replicas[1], b"of its node")
    assert b"forged" not in log
    for gang in (victim, attacker):
        gang.remove()


def test_a_node_cannot_send_into_a_gang_that_it_does_not_share(pair):
    """Though it shares another one with the same node."""
    victim, shared = a_listening_gang(pair), a_listening_gang(pair)
    network, replica = victim.replicas[1].gang_network, victim.replicas[1]
    own = victim.replicas[0].gang_network.address

    def send(words: bytes) -> None:
        packet = link_packet(
            network.id, replica_mac(network.address), own, network.address, 4_242, words
        )
        pair[0].run(sys.executable, "-c", SEND, pair[1].address, str(PORT), packet)

    with pair[1].network():
        victim.runtimes[1].connect([with_rank_0(replica, node_address="10.77.0.99")])
    send(b"of another gang")
    with pair[1].network():
        victim.runtimes[1].connect([replica])
    send(b"of its node")
    assert b"of another gang" not in Watch(victim.runtimes[1]).says(replica, b"of its node")
    for gang in (victim, shared):
        gang.remove()


def test_a_gang_goes_on_while_its_agent_is_killed_and_the_next_agent_removes_it(pair):
    gang = a_listening_gang(pair)
    everything = left_over(pair)
    killed = pair[0].next_agent()  # which has forgotten all
    with pair[0].network():
        killed.watch(lambda: None)
    assert left_over(pair) == everything, "what runs is left alone"
    pair[0].run("ip", "link", "delete", everything[0]["links"][-1])
    with pair[0].network():
        killed.connect(gang.replicas[:1])
    assert gang.reached(1, *gang.places(PORTS)) == set(gang.places(PORTS))
    gang.runtimes[0] = killed
    gang.remove()
    assert left_over(pair) == [NOTHING, NOTHING]


@pytest.mark.parametrize("kind", list(OverlayKind))
def test_an_agent_without_an_overlay_removes_what_the_one_before_had_with_its_gang(pair, kind):
    gang = a_listening_gang(pair, kind)
    everything = left_over(pair)
    gang.runtimes[0] = pair[0].next_agent(None)
    with pair[0].network():
        gang.runtimes[0].watch(lambda: None)
    assert left_over(pair) == everything, "what runs is left alone"
    assert gang.reached(1, *gang.places(PORTS)) == set(gang.places(PORTS))
    gang.remove()
    assert left_over(pair) == [NOTHING, NOTHING]


@pytest.mark.parametrize("kind", list(OverlayKind))
def test_what_others_remove_of_a_running_gang_is_there_again_with_the_next_round(pair, kind):
    """Many machines reload their own firewall by `nft flush ruleset`."""
    gang = a_listening_gang(pair, kind)
    everything = left_over(pair)
    rules = pair[0].run("nft", "list", "table", "inet", "tessera_gangs")
    pair[0].run("nft", "delete", "table", "inet", "tessera_gangs")
    for name in (name for name in everything[0]["links"] if name[:4] in ("tsv-", "tsw-")):
        pair[0].run("ip", "link", "delete", name)
    with pair[0].network():
        gang.runtimes[0].connect(gang.replicas[:1])
    assert left_over(pair) == everything
    assert pair[0].run("nft", "list", "table", "inet", "tessera_gangs") == rules
    assert gang.reached(1, *gang.places(PORTS)) == set(gang.places(PORTS))
    gang.remove()
    assert left_over(pair) == [NOTHING, NOTHING]


def test_a_link_that_a_killed_agent_did_not_mark_yet_is_removed(pair):
    words = ("type", "vxlan", "id", "254", "dstport", str(PORT))
    pair[0].run("ip", "link", "add", "tsv-0000fe", *words)
    with pair[0].network():
        pair[0].next_agent().watch(lambda: None)
    assert pair[0].left_over() == NOTHING


def test_a_gang_goes_on_where_its_nodes_port_changes(pair):
    gang = a_listening_gang(pair)
    with pair[0].network():
        runtime = pair[0].next_agent(port=PORT + 1)
    moved = [with_rank_0(replica, port=PORT + 1) for replica in gang.replicas]
    for machine, agent, replica in zip(pair, (runtime, gang.runtimes[1]), moved, strict=True):
        with machine.network():
            agent.connect([replica])
    assert gang.reached(1, *gang.places(PORTS)) == set(gang.places(PORTS))
    gang.runtimes[0] = runtime
    gang.remove()
    assert left_over(pair) == [NOTHING, NOTHING]


def test_a_gang_goes_on_where_its_nodes_address_changes(pair):
    """The node hears of it before its portal does: its own replicas are its own all the same."""
    gang = a_listening_gang(pair)
    places = set(gang.places(PORTS))
    before, after = pair[0].address, "10.77.0.20"
    pair[0].move(after)
    try:
        agents = (pair[0].next_agent(), gang.runtimes[1])
        with pair[0].network():
            agents[0].connect(gang.replicas[:1])
        moved = [with_rank_0(replica, node_address=after) for replica in gang.replicas]
        for machine, agent, replica in zip(pair, agents, moved, strict=True):
            with machine.network():
                agent.connect([replica])
        assert gang.reached(1, *places) == gang.reached(0, *places) == places
        gang.runtimes[0] = agents[0]
        gang.remove()
    finally:
        pair[0].move(before)
        pair[0].next_agent()
    assert left_over(pair) == [NOTHING, NOTHING]


@pytest.mark.parametrize("step", ["create_network", "link_create", "create_container"])
def test_an_agent_that_is_killed_while_it_prepares_leaves_nothing(pair, step):
    gang = a_gang_over(pair, SUM)
    machine, replica = pair[0], gang.replicas[0]
    given = {"replica": encode(replica), "home": str(machine.home), "address": machine.address}
    environ = os.environ | {"DOCKER_HOST": machine.engine.base_url, "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-m", "tests.docker.killed_agent", machine.name, step]
    with subprocess.Popen(
        [*machine.enter, *program, json.dumps(given)], env=environ, stdout=subprocess.PIPE
    ) as agent:
        assert agent.stdout and agent.stdout.readline() == b"there\n"
        agent.send_signal(signal.SIGKILL)
    following = machine.next_agent()
    with machine.network():
        following.watch(lambda: None)
        # Its portal does not want the replica any more.
        following.remove(replica.id)
    assert machine.left_over() == NOTHING


def test_a_subnet_that_this_node_needs_is_refused_with_what_is_in_the_way(pair):
    gang = a_gang_over(pair, SUM)
    network = gang.replicas[0].gang_network
    pair[0].run("ip", "route", "add", network.subnet, "dev", "eth0")
    try:
        with pair[0].network(), pytest.raises(RuntimeFailure, match=r"collides .* by eth0"):
            gang.runtimes[0].prepare(gang.replicas[0], ())
    finally:
        pair[0].run("ip", "route", "delete", network.subnet, "dev", "eth0")
    assert left_over(pair) == [NOTHING, NOTHING]
