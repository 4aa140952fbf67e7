"""A connection to a port of one container: from within its own network namespace, so that nothing
but the container can be reached, and what listens on its loopback can."""

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from docker import DockerClient
from docker.errors import NotFound
from docker.models.containers import Container

from agents.runtime.docker_errors import engine_errors
from agents.runtime.docker_recipe import LABEL

# Of <sched.h>.
CLONE_NEWNET = 0x40000000
LOOPBACK = ("127.0.0.1", "::1")


def running_container(client: DockerClient, node: str, attempt: int, rank: int) -> Container | None:
    """The container of this replica of the node, if it runs. `attempt`: the replica's fence."""
    labels = {"node": node, "fence": attempt, "rank": rank}
    filters: dict[str, str | list[str] | bool] = {
        "label": [f"{LABEL}{key}={value}" for key, value in labels.items()],
        "status": "running",
    }
    with engine_errors("list"):
        return next(iter(client.containers.list(filters=filters, ignore_removed=True)), None)


def connect_to_container(container: Container, port: int, seconds: float) -> socket.socket:
    """Raises OSError where nothing listens."""
    with _network_namespace(container) as namespace:
        if namespace is None:
            return _connect_by_bridge(container, port, seconds)
        # A thread of its own, which ends with the call: it cannot be brought back if that fails.
        with ThreadPoolExecutor(1, thread_name_prefix="port") as inside:
            return inside.submit(_connect_in, namespace, port, seconds).result()


@contextlib.contextmanager
def _network_namespace(container: Container) -> Iterator[int | None]:
    """A descriptor of it. None where this process may not enter it: it is not root, or the engine
    is on another machine."""
    pid, path = container.attrs["State"]["Pid"], None
    with contextlib.suppress(OSError):
        if os.geteuid() == 0 and pid:
            path = os.open(Path(f"/proc/{pid}/ns/net"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield path if path is not None and _is_still(container, pid, path) else None
    finally:
        if path is not None:
            os.close(path)


def _is_still(container: Container, pid: int, namespace: int) -> bool:
    """Whether the descriptor is of the container: its process id may be another one's by now, or
    one of this machine that has nothing to do with an engine elsewhere."""
    with contextlib.suppress(NotFound), engine_errors("inspect"):
        container.reload()
    state = container.attrs["State"]
    if not state.get("Running") or state.get("Pid") != pid:
        return False
    own = Path("/proc/self/ns/net").stat().st_ino
    sandbox = Path(container.attrs["NetworkSettings"].get("SandboxKey") or "/nowhere")
    with contextlib.suppress(OSError):
        # Where the engine keeps the namespace itself.
        if sandbox.stat().st_ino != os.fstat(namespace).st_ino:
            return False
    return os.fstat(namespace).st_ino != own


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
