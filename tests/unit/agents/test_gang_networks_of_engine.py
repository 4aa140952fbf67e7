"""An engine's networks of gangs, whatever portals, images and other threads do meanwhile."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from agents.contract.gang_network import NodeOverlay
from agents.host.programs import ProgramResult
from agents.overlay import commands
from agents.overlay.gang_links import GangLinks, NodeEnd
from agents.overlay.interfaces import Interface
from agents.runtime import docker_gang_networks
from agents.runtime.docker_gang_networks import GangNetworks
from tests.unit.agents.documents import KEY, NETWORK, a_replica
from tests.unit.agents.test_rank_names import a_recipe, options

REPLICA = a_replica(gang_network=NETWORK)


class Links(GangLinks):
    """As values; nothing of this machine is changed."""

    def __init__(self, folder):
        overlay = NodeOverlay("wireguard", 14_789, KEY, 1_350)
        address = NETWORK.peers[1].node_address
        super().__init__(NodeEnd("n-1", "lab", address, overlay, folder), "owner")
        self.joined, self.kept = [], []

    def join(self, networks):
        self.joined.append(networks)

    def keep(self, ids):
        self.kept.append(ids)


class Engine:
    """Has networks and containers with these labels."""

    def __init__(self, networks=(), containers=()):
        self.networks = SimpleNamespace(list=lambda filters: [*map(self.network, networks)])
        found = [{"Labels": {"tessera.gang": text}} for text in containers]
        self.api = SimpleNamespace(containers=lambda all, filters: found)
        self.removed = []

    def network(self, text):
        attrs = {"Labels": {"tessera.gang": text}}
        return SimpleNamespace(attrs=attrs, remove=lambda: self.removed.append(text))


def test_the_end_of_a_job_calls_no_program_on_a_node_without_gangs(monkeypatch, tmp_path):
    called = []

    def run_program(seconds, *words, input_text=""):
        called.append(words)
        return ProgramResult("")

    monkeypatch.setattr(commands, "installed", lambda program: program)
    monkeypatch.setattr(commands, "run_program", run_program)
    links = GangLinks(Links(tmp_path).end, "owner")
    links.keep(())
    assert called, "an earlier agent may have left something"
    called.clear()
    links.keep(())
    assert called == []


@pytest.fixture
def links(tmp_path):
    return Links(tmp_path)


def test_a_network_that_is_here_is_joined_and_one_that_is_not_changes_nothing(links):
    GangNetworks(Engine(["7"]), links).connect([REPLICA])
    GangNetworks(Engine(), links).connect([REPLICA])
    assert [[network.id for network in each] for each in links.joined] == [[7]]


@pytest.mark.parametrize(
    "fields",
    [
        {"node_address": "2001:db8::1%a\nflush ruleset"},
        {"node_address": "192.0.2.1 dev eth0"},
        {"public_key": "none"},
    ],
)
def test_a_portal_that_changes_a_network_later_cannot_name_what_no_replica_may_start_with(
    links, fields
):
    peers = (replace(NETWORK.peers[0], **fields), NETWORK.peers[1])
    later = replace(REPLICA, gang_network=replace(NETWORK, peers=peers))
    GangNetworks(Engine(["7"]), links).connect([later])
    assert links.joined == []


@pytest.mark.parametrize(
    ("interface", "expected"),
    [
        (Interface("docker0", 1_500, ("172.17.0.1",)), True),
        (Interface("eth0", 1_500, ("172.17.0.2",)), False),
    ],
)
def test_an_agent_in_a_container_does_not_have_the_engines_bridge(monkeypatch, interface, expected):
    monkeypatch.setattr(docker_gang_networks, "read_interfaces", lambda: (interface,))
    ipam = {"Config": [{"Subnet": "172.17.0.0/16"}]}
    options = {"com.docker.network.bridge.name": "docker0"}
    bridge = SimpleNamespace(attrs={"IPAM": ipam, "Options": options})
    engine = SimpleNamespace(networks=SimpleNamespace(list=lambda names: [bridge]))
    assert docker_gang_networks.has_engine_bridge(engine) is expected


def test_a_label_of_an_image_is_no_network(links, tmp_path):
    engine = Engine(["7", "8"], ["7", "", "mine", "9" * 5_000, "-8"])
    GangNetworks(engine, links).sweep()
    assert (links.kept, engine.removed) == ([{7}], ["8"])
    alone = options(a_recipe(tmp_path), a_replica(devices=()))
    assert alone["labels"]["tessera.gang"] == "", "that of its image would stay"


def test_a_start_and_a_round_do_not_change_the_machines_network_at_once(links, monkeypatch):
    """And the round does not wait."""
    monkeypatch.setattr(docker_gang_networks, "read_interfaces", lambda: ())
    monkeypatch.setattr(docker_gang_networks, "interface_with", lambda *_: object())
    entered, released = threading.Event(), threading.Event()

    def join(networks):
        entered.set()
        assert released.wait(60)

    links.join = join
    gangs = GangNetworks(Engine(["7"]), links)
    starting = threading.Thread(target=gangs.network_for, args=[NETWORK])
    starting.start()
    assert entered.wait(60)
    joined = []
    links.join = joined.append
    gangs.connect([REPLICA])
    released.set()
    starting.join()
    assert joined == []
    gangs.connect([REPLICA])
    assert joined
