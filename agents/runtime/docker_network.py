"""Which bridge a replica is on: no two jobs share one. Labels tell which bridges are ours."""

import contextlib
import itertools

from docker import DockerClient
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.models.networks import Network

from agents.contract.documents import DesiredReplica

HOST = "host"
# Labels of ours, on networks and containers.
JOB, LANE, NODE = "tessera.job", "tessera.lane", "tessera.node"


class Networks:
    """A gang's bridge is called by its job, so that every agent of the engine finds it, and goes
    with the gang. A gang of one takes the first lane of its node that is free; lanes are kept for
    the next job: to make and to remove a bridge takes as long as to start a container.

    Not safe for threads: the runtime makes containers and takes them away one at a time.
    """

    def __init__(self, client: DockerClient, node: str, *, on_host: bool) -> None:
        self.client = client
        self.node = node
        self.on_host = on_host
        self._lanes: set[str] = set()

    def network_for(self, replica: DesiredReplica) -> str:
        """The name of the replica's network, which is there."""
        if self.on_host:
            return HOST
        return self._of_job(replica.job) if replica.world > 1 else self._lane()

    def start(self, container: Container, replica: DesiredReplica) -> None:
        """Start it. Somebody may have taken its network away: one that is unused looks idle."""
        if self.on_host:
            container.start()
            return
        try:
            self._again(container, replica)
            container.start()
        except NotFound:  # taken by another agent of the engine, between two calls of ours
            self._again(container, replica)
            container.start()

    def _again(self, container: Container, replica: DesiredReplica) -> None:
        if replica.world > 1:
            self.network_for(replica)
        else:
            self._lane_create(container.attrs["HostConfig"]["NetworkMode"])

    def sweep(self) -> None:
        """Take away those of gangs without any container: the last one out does it. A container
        that was not started yet does not hold its network: the engine would let it go too early."""
        # The networks first: one whose first container is made meanwhile is then found needed.
        networks = self._labelled(JOB)
        found = self.client.api.containers(all=True, filters={"label": JOB}) if networks else ()
        needed = {container["Labels"][JOB] for container in found}
        for network in networks:
            if network.attrs["Labels"][JOB] not in needed:
                with contextlib.suppress(APIError):
                    network.remove()

    def tidy(self) -> None:
        """Take away the lanes that nobody is on."""
        for lane in self._labelled(f"{LANE}={self.node}"):
            with contextlib.suppress(APIError):
                lane.remove()
        self._lanes.clear()

    def _lane(self) -> str:
        own = self.client.containers.list(
            all=True, filters={"label": f"{NODE}={self.node}"}, ignore_removed=True
        )
        taken = {container.attrs["HostConfig"]["NetworkMode"] for container in own}
        names = (f"tessera-{self.node[:13]}-{number}" for number in itertools.count())
        name = next(name for name in names if name not in taken)
        if name not in self._lanes:
            self._lane_create(name)
        return name

    def _lane_create(self, name: str) -> None:
        names = [f"^{name}$"]
        found = self.client.networks.list(names=names)
        if not found:
            self._make(name, {LANE: self.node})
            found = self.client.networks.list(names=names)
        _keep_oldest(found)
        self._lanes.add(name)

    def _of_job(self, job: str) -> str:
        """Made where it is missing. Two agents of one engine may make it at the same time, and then
        its name means nothing to the engine: the oldest stays."""
        name = f"tessera-job-{job[:13]}"
        if not self._labelled(f"{JOB}={job}"):
            self._make(name, {JOB: job})
        _keep_oldest(self._labelled(f"{JOB}={job}"))
        return name

    def _make(self, name: str, labels: dict[str, str]) -> None:
        """Without a look at it: another agent of the engine may have taken it away already."""
        self.client.api.create_network(name, driver="bridge", labels=labels)

    def _labelled(self, label: str) -> list[Network]:
        return list(self.client.networks.list(filters={"label": label}))


def _keep_oldest(networks: list[Network]) -> None:
    """Of networks with one name, which means nothing to the engine then. There are two where two
    agents made it at once, or where the engine was slow and was asked once more."""
    for double in sorted(networks, key=lambda n: (n.attrs["Created"], n.id))[1:]:
        with contextlib.suppress(APIError):
            double.remove()
