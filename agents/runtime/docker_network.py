"""The Docker networks of replicas: no two jobs share one. Labels mark the agent's own."""

import contextlib
import itertools
from typing import Any

from docker import DockerClient
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.models.networks import Network

from agents.contract.documents import DesiredReplica
from agents.contract.egress import EgressPolicy
from agents.overlay.commands import NetworkRefused
from agents.overlay.egress import EgressTable, bridge_device
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_gang_networks import (
    BRIDGE_OPTION,
    NODE,
    GangNetworks,
    has_engine_bridge,
)
from agents.runtime.former_gang_networks import FormerGangNetworks

HOST = "host"
# Labels of ours, on networks and containers.
JOB, LANE = "tessera.job", "tessera.lane"
# The engine's answers to a start without the network, and with two of its name.
NO_ONE_NETWORK = (404, 400)
# Nobody answers there for names of elsewhere. Without it, an engine whose machine asks on loopback
# would ask for the job; names of the job's own gang are the engine's in any case.
NO_RESOLVER = "127.0.0.1"


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
        # None if the engine's bridges are elsewhere, or not used.
        self._egress = None if on_host else _egress_table(client)
        self.limits_egress = self.keep_egress()
        self._lanes: set[str] = set()

    def keep_egress(self) -> bool:
        """Whether this node keeps jobs from what their projects do not allow; see `EgressTable`."""
        return self._egress is not None and self._egress.keep()

    def options_for(self, replica: DesiredReplica) -> dict[str, Any]:
        """Of its container. Raises RuntimeFailure as `network_for`."""
        options: dict[str, Any] = {"network": self.network_for(replica)}
        return options | ({"dns": [NO_RESOLVER]} if replica.egress is EgressPolicy.NONE else {})

    def network_for(self, replica: DesiredReplica) -> str:
        """The name of the replica's network, which is created if it does not exist. Raises
        RuntimeFailure where this node cannot keep it from what its project does not allow."""
        if replica.egress is not EgressPolicy.ALL and not self.keep_egress():
            why = "this node cannot limit what jobs reach: it needs root, nft and its own engine"
            raise RuntimeFailure("egress", why)
        if self.on_host:
            return HOST
        if replica.gang_network and self.gangs:
            return self.gangs.network_for(replica.gang_network)
        return self._of_job(replica) if replica.world > 1 else self._lane(replica.egress)

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
            self._lane_create(container.attrs["HostConfig"]["NetworkMode"], replica.egress)

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

    def _lane(self, egress: EgressPolicy) -> str:
        own = self.client.api.containers(all=True, filters={"label": f"{NODE}={self.node}"})
        taken = {container["HostConfig"]["NetworkMode"] for container in own}
        prefix = f"tessera-{self.node[:13]}{_suffix(egress)}"
        names = (f"{prefix}-{number}" for number in itertools.count())
        name = next(name for name in names if name not in taken)
        if name not in self._lanes:
            self._lane_create(name, egress)
        return name

    def _lane_create(self, name: str, egress: EgressPolicy) -> None:
        names = [f"^{name}$"]
        found = self.client.networks.list(names=names)
        for old in [each for each in found if not self._has_device(each, egress)]:
            # Of an agent that limited nothing. No job of ours is on it: its lane would be taken.
            with contextlib.suppress(APIError):
                old.remove()
                found.remove(old)
        if not found:
            self._make(name, {LANE: self.node}, egress)
            found = self.client.networks.list(names=names)
        _keep_oldest(found)
        self._lanes.add(name)

    def _of_job(self, replica: DesiredReplica) -> str:
        """Created if it is missing. Two agents may create it at once, under one name: the oldest
        stays."""
        job, egress = replica.job, replica.egress
        name = f"tessera-job-{job[:13]}{_suffix(egress)}"
        names = [f"^{name}$"]
        if not self.client.networks.list(names=names):
            self._make(name, {JOB: job}, egress)
        _keep_oldest(self.client.networks.list(names=names))
        return name

    def _make(self, name: str, labels: dict[str, str], egress: EgressPolicy) -> None:
        """Does not inspect it: another agent on the engine may have removed it already."""
        options = {BRIDGE_OPTION: self._device(name, egress)} if self.limits_egress else {}
        self.client.api.create_network(name, driver="bridge", labels=labels, options=options)

    def _device(self, name: str, egress: EgressPolicy) -> str:
        """Depends on the node: agents on one engine may make a network twice, but no device."""
        return bridge_device(egress, f"{name} of {self.node}")

    def _has_device(self, network: Network, egress: EgressPolicy) -> bool:
        device = (network.attrs["Options"] or {}).get(BRIDGE_OPTION)
        return not self.limits_egress or device == self._device(network.name or "", egress)

    def _labelled(self, label: str) -> list[Network]:
        return list(self.client.networks.list(filters={"label": label}))


def _keep_oldest(networks: list[Network]) -> None:
    """Of networks with the same name. There are two if two agents created it at once, or if a slow
    engine was asked twice; the engine then cannot resolve the name."""
    for duplicate in sorted(networks, key=lambda n: (n.attrs["Created"], n.id))[1:]:
        with contextlib.suppress(APIError):
            duplicate.remove()


def _suffix(egress: EgressPolicy) -> str:
    """Of a network's name: a project's next job, or attempt, may reach less than the one before."""
    return "" if egress is EgressPolicy.ALL else f"-{egress}"


def _egress_table(client: DockerClient) -> EgressTable | None:
    try:
        return EgressTable() if has_engine_bridge(client) else None
    except NetworkRefused:
        return None
