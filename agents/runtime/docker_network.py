"""The Docker networks of replicas: no two jobs share one. Labels mark the agent's own."""

import contextlib
import itertools

from docker import DockerClient
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.models.networks import Network

from agents.contract.documents import DesiredReplica
from agents.runtime.docker_gang_networks import NODE, GangNetworks
from agents.runtime.former_gang_networks import FormerGangNetworks

HOST = "host"
# Labels of ours, on networks and containers.
JOB, LANE = "tessera.job", "tessera.lane"
# The engine's answers to a start without the network, and with two of its name.
NO_ONE_NETWORK = (404, 400)


class Networks:
    """The bridges of one node.

    A gang's bridge is named after its job, so that every agent on the engine finds it, and is
    removed with the gang. A gang of one uses the first free *lane* of its node: a bridge that is
    kept for the next job, since to create and remove one takes as long as to start a container.

    Not thread-safe: the runtime creates and removes containers one at a time.
    """

    def __init__(
        self,
        client: DockerClient,
        node: str,
        *,
        on_host: bool,
        gangs: GangNetworks | None = None,
    ) -> None:
        """`gangs`: over several engines; None if this node carries none."""
        self.client = client
        self.node = node
        self.on_host = on_host
        self.gangs = gangs
        self._swept_gangs = gangs or FormerGangNetworks(client, node)
        self._lanes: set[str] = set()

    def network_for(self, replica: DesiredReplica) -> str:
        """The name of the replica's network, which is created if it does not exist."""
        if self.on_host:
            return HOST
        if replica.gang_network and self.gangs:
            return self.gangs.network_for(replica.gang_network)
        return self._of_job(replica.job) if replica.world > 1 else self._lane()

    def start(self, container: Container, replica: DesiredReplica) -> None:
        """Start the container. Its network is created again if it is gone, for instance because it
        was pruned while no container ran on it."""
        if self.on_host:
            container.start()
            return
        if replica.world == 1 and self._started_on_lane(container):
            return
        try:
            self._again(container, replica)
            container.start()
        except NotFound:  # removed by another agent on the engine, between our two calls
            self._again(container, replica)
            container.start()

    def _started_on_lane(self, container: Container) -> bool:
        """Whether its lane is there, once: nobody but this agent makes lanes, so the engine need
        not list them first."""
        try:
            container.start()
        except APIError as error:
            if error.status_code in NO_ONE_NETWORK:
                return False
            raise
        return True

    def _again(self, container: Container, replica: DesiredReplica) -> None:
        if replica.world > 1:
            self.network_for(replica)
        else:
            self._lane_create(container.attrs["HostConfig"]["NetworkMode"])

    def sweep(self) -> None:
        """Remove the networks of gangs without any container.

        Decided by containers, not by the engine: it would remove the network of a container that
        was not started yet."""
        self._swept_gangs.sweep()
        # Networks are listed first: if a container is created meanwhile, its network is needed.
        networks = self._labelled(JOB)
        filters = {"label": JOB}
        containers = self.client.api.containers(all=True, filters=filters) if networks else ()
        needed = {container["Labels"][JOB] for container in containers}
        for network in networks:
            if network.attrs["Labels"][JOB] not in needed:
                with contextlib.suppress(APIError):
                    network.remove()

    def tidy(self) -> None:
        """Remove the unused lanes."""
        for lane in self._labelled(f"{LANE}={self.node}"):
            with contextlib.suppress(APIError):
                lane.remove()
        self._lanes.clear()

    def _lane(self) -> str:
        own = self.client.api.containers(all=True, filters={"label": f"{NODE}={self.node}"})
        taken = {container["HostConfig"]["NetworkMode"] for container in own}
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
        """Created if it is missing. Two agents may create it at once, under one name: the oldest
        stays."""
        name = f"tessera-job-{job[:13]}"
        if not self._labelled(f"{JOB}={job}"):
            self._make(name, {JOB: job})
        _keep_oldest(self._labelled(f"{JOB}={job}"))
        return name

    def _make(self, name: str, labels: dict[str, str]) -> None:
        """Does not inspect it: another agent on the engine may have removed it already."""
        self.client.api.create_network(name, driver="bridge", labels=labels)

    def _labelled(self, label: str) -> list[Network]:
        return list(self.client.networks.list(filters={"label": label}))


def _keep_oldest(networks: list[Network]) -> None:
    """Of networks with the same name. There are two if two agents created it at once, or if a slow
    engine was asked twice; the engine then cannot resolve the name."""
    for duplicate in sorted(networks, key=lambda n: (n.attrs["Created"], n.id))[1:]:
        with contextlib.suppress(APIError):
            duplicate.remove()
