"""The ports of this node's replicas, as targets of streams: never one of the machine itself, nor of
what is no replica of ours."""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor

from agents.contract.tunnel import StreamRefusal, StreamTarget
from agents.host.listening import listening_address
from agents.runtime.base import Runtime
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_network import HOST
from agents.runtime.docker_ports import connect_to_container
from agents.runtime.running_replica import running_container, running_replica
from agents.tunnel.link import OpenRefused

CONNECT_SECONDS = 5.0
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
        return lambda target: _connect_inside(runtime, target)
    return lambda target: _connect_own_socket(runtime, target)


def _connect_inside(runtime: DockerRuntime, target: StreamTarget) -> socket.socket:
    container = running_container(runtime, target)
    return connect_to_container(container, target.port, CONNECT_SECONDS)


def _connect_own_socket(runtime: Runtime, target: StreamTarget) -> socket.socket:
    """Where replicas share the machine's network: only if one of the replica's own processes
    listens there."""
    replica = running_replica(runtime, target).replica
    address = listening_address(runtime.processes(replica), target.port)
    if not address:
        raise OpenRefused(StreamRefusal.PORT_CLOSED)
    return socket.create_connection((address, target.port), CONNECT_SECONDS)
