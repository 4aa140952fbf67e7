"""The gangs of this node that are shared with other nodes: their links, firewall and tunnel.

The engine's networks say which gangs there are. What is here follows from them and from the desired
document, so an agent that starts anew makes the same again.

Not thread-safe, but for `fresh`: the runtime calls it under its own lock.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from agents.contract.egress import EgressPolicy
from agents.contract.gang_network import GangNetwork, GangPeer, NodeOverlay, OverlayKind
from agents.overlay.commands import ip_objects
from agents.overlay.firewall import (
    GangFirewall,
    LinkSources,
    firewall_apply,
    firewall_remove,
    firewall_stands,
)
from agents.overlay.links import (
    TUNNELLED_PORT,
    LinkEnd,
    link_create,
    link_remove,
    links_of,
    own_addresses,
    remote_peers,
    remote_replicas,
)
from agents.overlay.names import bridge_name, link_name, tunnel_address, tunnel_name
from agents.overlay.offer import KEY_FILE, VXLAN_BYTES
from agents.overlay.resolvers import read_resolvers
from agents.overlay.tunnel import TunnelPeer, tunnel_create, tunnel_remove


@dataclass(frozen=True, slots=True)
class NodeEnd:
    """This node in the eyes of others."""

    node: str
    # Nodes whose overlays have one name and kind reach each other.
    name: str
    address: str
    overlay: NodeOverlay
    # With its key.
    folder: Path

    @property
    def fabric(self) -> str:
        return f"overlay:{self.name}:{self.overlay.kind}"

    @property
    def is_tunnelled(self) -> bool:
        return self.overlay.kind == OverlayKind.WIREGUARD


@dataclass(slots=True)
class GangLinks:
    """`owner`: marks its links, the same for all agents of one engine."""

    end: NodeEnd
    owner: str
    _networks: dict[int, GangNetwork] = field(default_factory=dict)
    _applied: tuple[GangFirewall, tuple[TunnelPeer, ...]] | None = None
    # Nothing of any gang is on this machine.
    _is_clear: bool = False

    def fresh(self, networks: Iterable[GangNetwork]) -> list[GangNetwork]:
        """Those that are not joined yet, or not as they are given."""
        by_id = {network.id: _of_gang(network) for network in networks}
        return [each for each in by_id.values() if each != self._networks.get(each.id)]

    def join(self, networks: Iterable[GangNetwork]) -> None:
        """Their bridges exist. Raises NetworkRefused."""
        fresh = self.fresh(networks)
        before = dict(self._networks)
        self._networks |= {network.id: network for network in fresh}
        try:
            self._apply()
            for network in fresh:
                link_create(network, self._link_end(), remote_replicas(network))
        except BaseException:
            # The next round tries again.
            self._networks = before
            raise

    def restore(self) -> None:
        """Make again what somebody else has removed: where a machine's own firewall is reloaded by
        `nft flush ruleset`, ours goes as well. Raises NetworkRefused."""
        if not self._networks or self._stands():
            return
        self._applied = None
        self._apply()
        for network in self._networks.values():
            link_create(network, self._link_end(), remote_replicas(network))

    def keep(self, ids: Collection[int]) -> None:
        """Leave all other networks. No program is called again while there is none. Raises
        NetworkRefused."""
        if self._is_clear and not ids:
            return
        left = set(links_of(self.owner)) - set(ids)
        for gone in left:
            link_remove(gone)
        for gone in set(self._networks) - set(ids):
            del self._networks[gone]
        if self._networks:
            self._apply()
        elif not ids:
            self._applied = None
            firewall_remove()
            tunnel_remove(tunnel_name(self.end.node))
            self._is_clear = not left

    def _stands(self) -> bool:
        names = {str(each.get("ifname", "")) for each in ip_objects("link", "show")}
        wanted = set(map(link_name, self._networks))
        if self.end.is_tunnelled:
            wanted.add(tunnel_name(self.end.node))
        return wanted <= names and firewall_stands()

    def _apply(self) -> None:
        """The firewall first: no packet travels before it."""
        wanted = self._firewall(), self._tunnel_peers()
        if wanted == self._applied:
            return
        self._applied, self._is_clear = None, False
        firewall_apply(wanted[0])
        if self.end.is_tunnelled:
            key, overlay = self.end.folder / KEY_FILE, self.end.overlay
            name, mtu = tunnel_name(self.end.node), overlay.mtu + VXLAN_BYTES[6]
            tunnel_create(name, key, overlay.public_key, overlay.port, mtu, wanted[1])
        self._applied = wanted

    def _firewall(self) -> GangFirewall:
        nodes = {peer.node_address for peer in self._remote_peers()}
        return GangFirewall(
            bridges=tuple(bridge_name(each) for each in sorted(self._networks)),
            port=0 if self.end.is_tunnelled else self.end.overlay.port,
            links=tuple(self._sources(each) for _, each in sorted(self._networks.items())),
            nodes=tuple(sorted(nodes)),
            resolvers=read_resolvers(),
            limited=tuple(
                (bridge_name(each.id), each.egress)
                for _, each in sorted(self._networks.items())
                if each.egress is not EgressPolicy.ALL
            ),
        )

    def _sources(self, network: GangNetwork) -> LinkSources:
        replicas = remote_replicas(network)
        return LinkSources(network.id, tuple(sorted({replica.node for replica in replicas})))

    def _tunnel_peers(self) -> tuple[TunnelPeer, ...]:
        return tuple(
            sorted(
                {
                    TunnelPeer(peer.public_key, peer.node_address, peer.port)
                    for peer in self._remote_peers()
                    if peer.public_key
                }
            )
        )

    def _remote_peers(self) -> Iterator[GangPeer]:
        for network in self._networks.values():
            yield from remote_peers(network)

    def _link_end(self) -> LinkEnd:
        overlay = self.end.overlay
        if self.end.is_tunnelled:
            address = tunnel_address(overlay.public_key)
            return LinkEnd(address, TUNNELLED_PORT, overlay.mtu, self.owner)
        return LinkEnd(self.end.address, overlay.port, overlay.mtu, self.owner)


def _of_gang(network: GangNetwork) -> GangNetwork:
    """As the first of its replicas on this node has it: one for all of them."""
    here = own_addresses(network)
    own = (peer.address for peer in network.peers if peer.node_address in here)
    return replace(network, address=next(own, network.address))
