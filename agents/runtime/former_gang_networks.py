"""What an agent that has no overlay any more has left of its gangs over several engines."""

import contextlib

from docker import DockerClient
from docker.errors import APIError

from agents.overlay.firewall import firewall_remove
from agents.overlay.links import link_remove
from agents.overlay.names import tunnel_name
from agents.overlay.tunnel import tunnel_remove
from agents.runtime.docker_gang_networks import (
    GANG,
    NODE,
    labelled_networks,
    needed_ids,
    network_id,
)


class FormerGangNetworks:
    """The networks that an earlier agent of this node made: each goes with its gang, which runs on
    as it is. Nothing is asked again once there are none.

    Not thread-safe: the runtime sweeps under its own lock."""

    def __init__(self, client: DockerClient, node: str) -> None:
        self.client = client
        self.node = node
        self._is_clear = False

    def sweep(self) -> None:
        """Remove those without any container; with the last one, tunnel and firewall. The engine's
        networks go last: what is left by an agent that is killed here is found by them."""
        if self._is_clear:
            return
        own = labelled_networks(self.client, GANG, f"{NODE}={self.node}")
        if not own:
            self._is_clear = True
            return
        needed = needed_ids(self.client)
        unused = [network for network in own if network_id(network) not in needed]
        for network in unused:
            link_remove(network_id(network))
        if len(unused) == len(own):
            tunnel_remove(tunnel_name(self.node))
            if len(labelled_networks(self.client, GANG)) == len(own):
                firewall_remove()
        for network in unused:
            with contextlib.suppress(APIError):
                network.remove()
