"""Two engines on machines of their own, joined by one cable. What a test runs in the `network` of
one is there what an agent does on that machine."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agents.admission.policy import NodePolicy
from agents.contract.container_names import container_name
from agents.contract.documents import DesiredReplica
from agents.contract.gang_network import GangNetwork, GangPeer, OverlayKind
from agents.overlay.firewall import TABLE as FIREWALL
from agents.overlay.gang_links import NodeEnd
from agents.overlay.offer import OverlayRules, overlay_offer
from agents.runtime.docker import DockerRuntime
from docs.examples.build_image import IMAGE
from tests.docker.own_engine import OwnEngine, own_engine
from tests.environment.docker_engine import engine_client
from tests.environment.machines import inside_network

ADDRESSES = ("10.77.0.10", "10.77.0.11")
METADATA = "169.254.169.254"
PORT = 14_789


@dataclass
class EngineMachine:
    """A machine with an engine, and with the agent of one node: its firewall knows the gangs of one
    agent."""

    name: str
    address: str
    engine: OwnEngine
    home: Path
    # The last one's agent runs, the others have ended.
    runtimes: list[DockerRuntime] = field(default_factory=list)
    # Addresses that a test tries, by name.
    places: dict[str, str] = field(default_factory=dict)

    @property
    def enter(self) -> tuple[str, ...]:
        """What a command that is to run there begins with."""
        return ("nsenter", "--target", str(self.engine.holder_pid), "--net", "--mount")

    def network(self) -> contextlib.AbstractContextManager[None]:
        return inside_network(self.engine.holder_pid)

    def run(self, *words: str) -> str:
        """What a program prints there. Raises CalledProcessError."""
        done = subprocess.run([*self.enter, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def move(self, address: str) -> None:
        """It has this address in place of its own."""
        self.run("sysctl", "-qw", "net.ipv4.conf.eth0.promote_secondaries=1")
        self.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        self.run("ip", "address", "delete", f"{self.address}/24", "dev", "eth0")
        self.address = address

    def end(self, kind: OverlayKind = OverlayKind.VXLAN, port: int = PORT) -> NodeEnd:
        """This node's in the eyes of others."""
        self.home.mkdir(exist_ok=True)
        with self.network():
            offer = overlay_offer(OverlayRules("lab", str(kind), port), self.address, self.home)
        return NodeEnd(self.name, "lab", self.address, offer, self.home)

    def agent(self, kind: OverlayKind = OverlayKind.VXLAN) -> DockerRuntime:
        """That of the agent which runs, or of the next one where that has another overlay."""
        overlay = self.runtimes[-1].overlay() if self.runtimes else None
        if overlay and (overlay.kind, overlay.port) == (kind, PORT):
            return self.runtimes[-1]
        return self.next_agent(kind)

    def next_agent(
        self, kind: OverlayKind | None = OverlayKind.VXLAN, port: int = PORT
    ) -> DockerRuntime:
        """As an agent that starts has it: the one before has ended. None: without an overlay."""
        end = self.end(kind, port) if kind else None
        with self.network(), pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", self.engine.base_url)
            made = DockerRuntime(
                self.home / "logs", self.name, NodePolicy(), address=self.address, end=end
            )
        self.runtimes.append(made)
        return made

    def left_over(self) -> dict[str, Any]:
        """What gangs have there."""
        with engine_client(self.engine.base_url) as client:
            networks = [n.name for n in client.networks.list() if "gang" in (n.name or "")]
            containers = [c.name for c in client.containers.list(all=True)]
        links = [line.split()[1] for line in self.run("ip", "-o", "link").splitlines()]
        return {
            "networks": networks,
            "containers": containers,
            "links": [name for name in links if name.startswith(("tsb-", "tsv-", "tsw-"))],
            # That of egress stays with the agent: no rule of it depends on a job.
            "tables": [t for t in self.run("nft", "list", "tables").split() if t == FIREWALL],
        }


NOTHING: dict[str, Any] = {"networks": [], "containers": [], "links": [], "tables": []}


@contextlib.contextmanager
def two_engines(folder: Path) -> Iterator[tuple[EngineMachine, EngineMachine]]:
    """Skips the test where no engine can run."""
    with contextlib.ExitStack() as stack:
        made = [
            EngineMachine(name, address, stack.enter_context(own_engine()), folder / name)
            for name, address in zip(("node-a", "node-b"), ADDRESSES, strict=True)
        ]
        _join(made[0], made[1])
        stack.callback(_close, made)
        yield made[0], made[1]


def gang_network(
    replicas: list[DesiredReplica], ends: list[NodeEnd], network_id: int
) -> tuple[GangNetwork, ...]:
    """As a portal gives it to replicas that are on the nodes of `ends`."""
    subnet = f"10.213.{network_id % 256}"
    peers = tuple(
        GangPeer(
            rank,
            container_name(replica.job, replica.attempt, rank),
            f"{subnet}.{rank + 2}",
            end.address,
            end.overlay.port,
            end.overlay.public_key,
        )
        for rank, (replica, end) in enumerate(zip(replicas, ends, strict=True))
    )
    kind, mtu = OverlayKind(ends[0].overlay.kind), min(end.overlay.mtu for end in ends)
    return tuple(
        GangNetwork(network_id, kind, f"{subnet}.0/24", peer.address, mtu, peers) for peer in peers
    )


def _join(one: EngineMachine, other: EngineMachine) -> None:
    """The cable between them; beyond it, the metadata address of a cloud."""
    peer = ("peer", "name", "eth0", "netns", str(other.engine.holder_pid))
    one.run("ip", "link", "add", "eth0", "type", "veth", *peer)
    for machine in (one, other):
        machine.run("ip", "address", "add", f"{machine.address}/24", "dev", "eth0")
        machine.run("ip", "link", "set", "eth0", "up")
    other.run("ip", "address", "add", f"{METADATA}/32", "dev", "lo")
    one.run("ip", "route", "add", METADATA, "via", other.address)


def share_image(one: EngineMachine, other: EngineMachine) -> None:
    """Both have the same bytes of the example image: each engine made its own."""
    with engine_client(one.engine.base_url) as source, engine_client(other.engine.base_url) as sink:
        sink.images.load(b"".join(source.images.get(IMAGE).save(named=True)))


def _close(machines: list[EngineMachine]) -> None:
    for machine in machines:
        for runtime in machine.runtimes:
            runtime.close()
