"""A gang with one rank on each of some machines, and what a test does with it."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from docker.models.containers import Container

from agents.contract.documents import DesiredReplica, Rendezvous
from agents.contract.gang_network import OverlayKind
from agents.runtime.docker import DockerRuntime
from tests.contract.replicas import a_gang
from tests.docker.gang_programs import REACHED
from tests.docker.two_engines import EngineMachine, gang_network
from tests.environment.docker_engine import engine_client

numbers = iter(range(1, 250))


@dataclass
class Gang:
    """One rank on each machine."""

    machines: Sequence[EngineMachine]
    runtimes: list[DockerRuntime]
    replicas: list[DesiredReplica]

    def each(self) -> Iterator[tuple[EngineMachine, DockerRuntime, DesiredReplica]]:
        yield from zip(self.machines, self.runtimes, self.replicas, strict=True)

    def prepare(self) -> None:
        for machine, runtime, replica in self.each():
            with machine.network():
                runtime.prepare(replica, ())

    def start(self) -> None:
        seen = [runtime.containers()[replica.id] for _, runtime, replica in self.each()]
        names = tuple(status.address for status in seen)
        for machine, runtime, replica in self.each():
            with machine.network():
                runtime.start(replica, (), Rendezvous(names[0], seen[0].port, names))

    def remove(self) -> None:
        for machine, runtime, replica in self.each():
            with machine.network():
                runtime.stop(replica.id, 0)
                runtime.remove(replica.id)

    @contextlib.contextmanager
    def container(self, rank: int) -> Iterator[Container]:
        """That of a rank which runs."""
        label = f"tessera.replica={self.replicas[rank].id}"
        with engine_client(self.machines[rank].engine.base_url) as client:
            (container,) = client.containers.list(filters={"label": label})
            yield container

    def inside(self, rank: int, program: str, *arguments: str) -> str:
        """What a program prints in the container of a rank."""
        with self.container(rank) as container:
            code, output = container.exec_run(["python3", "-c", program, *arguments])
        assert code == 0, output
        assert isinstance(output, bytes)
        return output.decode().strip()

    def reached(self, rank: int, *places: str) -> set[str]:
        return set(self.inside(rank, REACHED, *places).split())

    def places(self, ports: Iterable[int]) -> list[str]:
        return [f"{address}:{port}" for address in self.addresses() for port in ports]

    def addresses(self) -> list[str]:
        return [each.gang_network.address for each in self.replicas if each.gang_network]


def a_gang_over(
    machines: Sequence[EngineMachine],
    program: str,
    *arguments: str,
    kind: OverlayKind = OverlayKind.VXLAN,
) -> Gang:
    runtimes = [machine.agent(kind) for machine in machines]
    replicas = a_gang(program, len(machines))
    replicas = [replace(each, command=(*each.command, *arguments)) for each in replicas]
    ends = [runtime.gangs.links.end for runtime in runtimes if runtime.gangs]
    networks = gang_network(replicas, ends, next(numbers))
    given = [
        replace(replica, gang_network=network)
        for replica, network in zip(replicas, networks, strict=True)
    ]
    return Gang(machines, runtimes, given)
