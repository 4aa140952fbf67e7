"""A connection to a port of one container: from within its own network namespace, so that nothing
but the container can be reached, and what listens on its loopback can."""

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from docker.models.containers import Container

from agents.contract.tunnel import StreamTarget
from agents.runtime.docker import DockerRuntime
from agents.runtime.running_replica import running_container

# Of <sched.h>.
CLONE_NEWNET = 0x40000000
LOOPBACK = ("127.0.0.1", "::1")
# Containers whose processes are known; then all are forgotten.
MAX_KNOWN_CONTAINERS = 1_024


class ContainerPorts:
    """Ports of the containers of one node. The engine is asked once for each container: while the
    process that it named is in the container's control group, the container runs."""

    def __init__(self, runtime: DockerRuntime) -> None:
        self._runtime = runtime
        # By attempt and rank.
        self._known: dict[tuple[int, int], Container] = {}

    def connect(self, target: StreamTarget, seconds: float) -> socket.socket:
        """Raises OpenRefused if this replica does not run, and OSError where nothing listens."""
        key = target.attempt, target.rank
        if known := self._known.get(key):
            with _network_namespace(known) as namespace:
                if namespace is not None:
                    return _connect_within(namespace, target.port, seconds)
            self._known.pop(key, None)
        found = running_container(self._runtime, target)
        if len(self._known) >= MAX_KNOWN_CONTAINERS:
            self._known.clear()
        self._known[key] = found
        return connect_to_container(found, target.port, seconds)


def connect_to_container(container: Container, port: int, seconds: float) -> socket.socket:
    """Raises OSError where nothing listens."""
    with _network_namespace(container) as namespace:
        if namespace is None:
            return _connect_by_bridge(container, port, seconds)
        return _connect_within(namespace, port, seconds)


@contextlib.contextmanager
def _network_namespace(container: Container) -> Iterator[int | None]:
    """A descriptor of it. None where this process may not enter it: it is not root, or the engine
    is on another machine."""
    process = Path(f"/proc/{container.attrs['State']['Pid']}")
    descriptor = None
    with contextlib.suppress(OSError):
        if os.geteuid() == 0:
            descriptor = os.open(process / "ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        is_its_own = descriptor is not None and _is_of(process, container, descriptor)
        yield descriptor if is_its_own else None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_of(process: Path, container: Container, namespace: int) -> bool:
    """Whether the namespace is the container's own. Its process id alone says nothing: it may be
    one of another machine, or another program's by now."""
    with contextlib.suppress(OSError):
        is_inside = str(container.id) in (process / "cgroup").read_text("utf-8", "replace")
        own = Path("/proc/self/ns/net").stat().st_ino
        return is_inside and os.fstat(namespace).st_ino != own
    return False


def _connect_within(namespace: int, port: int, seconds: float) -> socket.socket:
    # A thread of its own, which ends with the call: it cannot be brought back if that fails.
    with ThreadPoolExecutor(1, thread_name_prefix="port") as inside:
        return inside.submit(_connect_in, namespace, port, seconds).result()


def _connect_in(namespace: int, port: int, seconds: float) -> socket.socket:
    """In a thread that ends afterwards."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    try:
        return socket.create_connection((LOOPBACK[0], port), seconds)
    except ConnectionRefusedError:
        return socket.create_connection((LOOPBACK[1], port), seconds)


def _connect_by_bridge(container: Container, port: int, seconds: float) -> socket.socket:
    """At its address on its own bridge: what listens on its loopback is not reached."""
    networks = container.attrs["NetworkSettings"]["Networks"].values()
    address = next((each["IPAddress"] for each in networks if each.get("IPAddress")), "")
    if not address:
        raise ConnectionRefusedError
    return socket.create_connection((address, port), seconds)
