"""The engine's networks of gangs that are on several nodes: one for each attempt, whose bridge the
gang's link is a port of."""

import contextlib
import logging
import re
import threading
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, ip_address, ip_network
from typing import Any

from docker import DockerClient
from docker.errors import APIError, DockerException
from docker.models.networks import Network
from docker.types import IPAMConfig, IPAMPool

from agents.admission.gang_networks import unfit_network
from agents.contract.documents import DesiredReplica
from agents.contract.gang_network import GangNetwork
from agents.overlay.commands import NetworkRefused
from agents.overlay.gang_links import GangLinks, NodeEnd
from agents.overlay.interfaces import colliding_route, interface_with, read_interfaces
from agents.overlay.names import bridge_name, gateway_of, network_name, replica_mac
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_engine import EngineConnection

# Labels of ours, on networks and containers: the network's id; whose they are.
GANG, NODE = "tessera.gang", "tessera.node"
LABEL_TEXT = re.compile(r"[0-9]{1,8}")
BRIDGE_OPTION = "com.docker.network.bridge.name"
MTU_OPTION = "com.docker.network.driver.mtu"
# From this version on, an endpoint has its own MAC address; before, the container had it.
ENDPOINT_MAC_API = (1, 44)

log = logging.getLogger("agents.runtime.docker_gang_networks")


class GangNetworks:
    """Those of one engine. Any thread may call: one replica is started while another is created
    and a third one removed."""

    def __init__(self, client: DockerClient, links: GangLinks) -> None:
        self.client = client
        self.links = links
        self._lock = threading.Lock()

    def network_for(self, network: GangNetwork) -> str:
        """Its name, once it is there and joined. Raises RuntimeFailure."""
        with self._lock, network_refusals():
            if network.id not in self._ids():
                self._create(network)
            if interface_with(gateway_of(network.subnet), read_interfaces()) is None:
                raise NetworkRefused(f"the engine made no bridge {bridge_name(network.id)} here")
            self.links.join([network])
        return network_name(network.id)

    def connect(self, replicas: Iterable[DesiredReplica]) -> None:
        """Those of these replicas that are on the engine are joined as they are given now. What
        fails is logged, and tried again with the next call, as what another thread is busy with:
        nobody waits here."""
        fresh = self.links.fresh(self._fitting(replicas))
        if self._lock.acquire(blocking=False):
            try:
                self.links.restore()
                present = self._ids() if fresh else set()
                if joinable := [network for network in fresh if network.id in present]:
                    self.links.join(joinable)
            except (NetworkRefused, DockerException, OSError) as failure:
                log.warning("gang_networks_not_joined", extra={"why": str(failure)})
            finally:
                self._lock.release()

    def _fitting(self, replicas: Iterable[DesiredReplica]) -> Iterator[GangNetwork]:
        """Admission asks once, before a replica starts; a portal may change its network later."""
        for replica in replicas:
            if network := replica.gang_network:
                if why := unfit_network(network, self.links.end.overlay):
                    log.warning("gang_networks_not_joined", extra={"why": why})
                else:
                    yield network

    def sweep(self) -> None:
        """Remove those without any container, and what belongs to none. What cannot be removed is
        logged, and tried again with the next call."""
        with self._lock:
            # Networks are listed first: if a container is created meanwhile, its network is needed.
            networks = labelled_networks(self.client, GANG)
            needed = needed_ids(self.client)
            try:
                self.links.keep(needed)
            except NetworkRefused as refused:
                log.warning("gang_networks_not_removed", extra={"why": str(refused)})
            for network in networks:
                if network_id(network) not in needed:
                    with contextlib.suppress(APIError):
                        network.remove()

    def endpoint(self, network: GangNetwork, api: str) -> dict[str, Any]:
        """The options of a container with the replica's addresses."""
        mac = replica_mac(network.address)
        is_own = tuple(map(int, api.split("."))) >= ENDPOINT_MAC_API
        endpoint = self.client.api.create_endpoint_config(
            ipv4_address=network.address, mac_address=mac if is_own else None
        )
        options: dict[str, Any] = {"networking_config": {network_name(network.id): endpoint}}
        return options if is_own else options | {"mac_address": mac}

    def _create(self, network: GangNetwork) -> None:
        if taken := colliding_route(IPv4Network(network.subnet)):
            raise NetworkRefused(
                f"the gang's subnet {network.subnet} collides with this node's route to {taken}: "
                "give gangs another range of addresses"
            )
        pool = IPAMPool(subnet=network.subnet, gateway=gateway_of(network.subnet))
        mtu = min(network.mtu, self.links.end.overlay.mtu)
        self.client.api.create_network(
            network_name(network.id),
            driver="bridge",
            labels={GANG: str(network.id), NODE: self.links.end.node},
            options={BRIDGE_OPTION: bridge_name(network.id), MTU_OPTION: str(mtu)},
            ipam=IPAMConfig(pool_configs=[pool]),
        )

    def _ids(self) -> set[int]:
        return set(map(network_id, labelled_networks(self.client, GANG)))


def labelled_networks(client: DockerClient, *labels: str) -> list[Network]:
    """Of the engine, those with all of these labels."""
    return list(client.networks.list(filters={"label": list(labels)}))


def needed_ids(client: DockerClient) -> set[int]:
    """Of the networks that any container of the engine is for."""
    containers = client.api.containers(all=True, filters={"label": GANG})
    # A container has the labels of its image, too, with whatever its author wrote.
    named = {container["Labels"][GANG] for container in containers}
    return {int(text) for text in named if LABEL_TEXT.fullmatch(text)}


def network_id(network: Network) -> int:
    return int(network.attrs["Labels"][GANG])


@contextlib.contextmanager
def network_refusals() -> Iterator[None]:
    """As a failure of the replica."""
    try:
        yield
    except NetworkRefused as refused:
        raise RuntimeFailure("gang_network", str(refused)) from refused


def gang_networks(engine: EngineConnection, end: NodeEnd | None) -> GangNetworks | None:
    """None if the node has no overlay, or if its engine is elsewhere. Raises RuntimeFailure."""
    if end is None:
        return None
    with network_refusals():
        if not has_engine_bridge(engine.client):
            log.info("no_overlay", extra={"why": "the engine's default bridge is not here"})
            return None
    return GangNetworks(engine.client, GangLinks(end, f"tessera {engine.info.get('ID', '')}"))


def has_engine_bridge(client: DockerClient) -> bool:
    """Whether the engine's bridges are in this process's network namespace: an agent in a container
    would make its links where no replica is. Such a container has an address of the bridge's
    subnet, but not the bridge. Raises NetworkRefused."""
    found = client.networks.list(names=["^bridge$"])
    configs = [each for network in found for each in network.attrs["IPAM"]["Config"] or ()]
    subnets = [ip_network(each["Subnet"]) for each in configs if each.get("Subnet")]
    names = {(network.attrs["Options"] or {}).get(BRIDGE_OPTION) for network in found}
    bridges = [each for each in read_interfaces() if each.name in names]
    own = [ip_address(text) for each in bridges for text in each.addresses]
    return any(address in subnet for address in own for subnet in subnets)
