"""The ports of this node's replicas, as targets of streams: never one of the machine itself, nor of
what is no replica of ours.

Where a target was found is remembered, and looked at first: a page of an app asks for a hundred
files. What is remembered counts only if a look at it alone shows that it is the replica's still.
"""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor

from agents.contract.tunnel import StreamRefusal, StreamTarget
from agents.host.listening import ListeningSocket, find_listening_socket, still_listens
from agents.runtime.base import Runtime
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_network import HOST
from agents.runtime.docker_ports import ContainerPorts
from agents.runtime.running_replica import running_replica
from agents.tunnel.link import OpenRefused

CONNECT_SECONDS = 5.0
# Of each node; then all are forgotten.
MAX_KNOWN_PORTS = 1_024
# Returns a connected socket. Raises OpenRefused, and OSError if nothing answers at the port.
Connect = Callable[[StreamTarget], socket.socket]


async def connect_target(
    target: StreamTarget, connect: Connect, threads: Executor
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the port of the replica. Raises OpenRefused."""
    loop = asyncio.get_running_loop()
    try:
        connected = await loop.run_in_executor(threads, connect, target)
    except TimeoutError:
        raise OpenRefused(StreamRefusal.TIMED_OUT) from None
    except OSError:
        raise OpenRefused(StreamRefusal.PORT_CLOSED) from None
    return await asyncio.open_connection(sock=connected)


def replica_ports(runtime: Runtime) -> Connect:
    """How the replicas of this runtime are reached."""
    if isinstance(runtime, DockerRuntime) and runtime.policy.network != HOST:
        ports = ContainerPorts(runtime)
        return lambda target: ports.connect(target, CONNECT_SECONDS)
    return MachinePorts(runtime).connect


class MachinePorts:
    """Where replicas share the machine's network: a port is a replica's only if one of its own
    processes listens there."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: dict[StreamTarget, ListeningSocket] = {}

    def connect(self, target: StreamTarget) -> socket.socket:
        found = self._listening_socket(running_replica(self._runtime, target).replica, target)
        if found is None:
            raise OpenRefused(StreamRefusal.PORT_CLOSED)
        return socket.create_connection((found.address, target.port), CONNECT_SECONDS)

    def _listening_socket(self, replica: str, target: StreamTarget) -> ListeningSocket | None:
        known = self._known.get(target)
        if known is not None and still_listens(known, target.port):
            return known
        self._known.pop(target, None)
        found = find_listening_socket(self._runtime.processes(replica), target.port)
        if found is not None:
            if len(self._known) >= MAX_KNOWN_PORTS:
                self._known.clear()
            self._known[target] = found
        return found
