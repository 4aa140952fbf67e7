"""Builders of replicas, and the patience of one who waits for a runtime's news."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

from agents.contract.documents import DesiredReplica, Rendezvous
from agents.runtime.base import ContainerPhase, ContainerStatus, Runtime

T = TypeVar("T")
IMAGE = "tessera-example:latest"
SECONDS = 300  # a bound for what never comes; nothing waits so long
DEVICE = "MIG-6f5a1c2e-8a1b-5c7d-9e10-0123456789ab"

UNTIL_TOLD = """
import signal, sys
# A handler would be missed between Python's last look at its signals and the wait for one.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
sys.exit(75)
"""
DEAF = """
import signal, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
threading.Event().wait()
"""
# Rank 0 listens where the environment says the gang meets; the others call it there.
MEET = """
import os, socket, time
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    with socket.create_server(("", place[1])) as server:
        with server.accept()[0] as caller:
            caller.sendall(b"rank 0 says hello")
else:
    for _ in range(4_000):
        try:
            caller = socket.create_connection(place, timeout=5)
            break
        except OSError:
            time.sleep(0.05)
    with caller:
        print(caller.recv(100).decode(), flush=True)
"""


def a_replica(
    program: str = "pass", *, of: DesiredReplica | None = None, **fields: Any
) -> DesiredReplica:
    """One replica of a job of its own, or the next rank `of` another's gang."""
    values: dict[str, Any] = {
        "id": str(uuid4()),
        "job": str(uuid4()),
        "name": "sum",
        "image": IMAGE,
        "command": ("python3", "-c", program),
        "memory_mib": 128,
        "cpu_milli": 500,
        "shm_mib": 16,
    } | fields
    if of is not None:
        return replace(of, id=values["id"], command=values["command"], rank=of.rank + 1)
    return DesiredReplica(**values)


def a_gang(program: str, ranks: int, **fields: Any) -> list[DesiredReplica]:
    gang = [a_replica(program, world=ranks, **fields)]
    while len(gang) < ranks:
        gang.append(a_replica(program, of=gang[-1]))
    return gang


class Watch:
    """Waits for what a runtime announces; never for a length of time."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.news = threading.Event()
        runtime.watch(self.news.set)

    def until(self, reached: Callable[[], T | None], what: str, seconds: float = SECONDS) -> T:
        deadline = time.monotonic() + seconds
        while not (found := reached()):
            left = deadline - time.monotonic()
            assert left > 0, f"waited in vain for {what}"
            self.news.wait(min(left, 0.05))  # a log that grows is no news to every runtime
            self.news.clear()
        return found

    def ended(self, replica: DesiredReplica) -> ContainerStatus:
        def has_ended() -> ContainerStatus | None:
            seen = self.runtime.containers().get(replica.id)
            return seen if seen and seen.phase is ContainerPhase.EXITED else None

        return self.until(has_ended, f"the end of rank {replica.rank}")

    def says(self, replica: DesiredReplica, words: bytes) -> bytes:
        def said() -> bytes | None:
            log = whole_log(self.runtime, replica.id)
            return log if words in log else None

        return self.until(said, f"{words!r} in the log")


def whole_log(runtime: Runtime, replica_id: str, chunk: int = 64 << 10) -> bytes:
    """The log as the agent ships it: by offset, chunk by chunk."""
    log = b""
    while part := runtime.log(replica_id, len(log), chunk):
        log += part
    return log


def meeting_of(runtime: Runtime, gang: list[DesiredReplica]) -> Rendezvous:
    """What the portal makes of the addresses that the prepared ranks offer."""
    seen = [runtime.containers()[replica.id] for replica in gang]
    peers = tuple(one.address for one in seen)
    return Rendezvous(address=seen[0].address, port=seen[0].port, peers=peers)


def go(runtime: Runtime, *gang: DesiredReplica, devices: tuple[str, ...] = ()) -> None:
    """Prepare all, then start all, as a node does it."""
    for replica in gang:
        runtime.prepare(replica, devices)
    meeting = meeting_of(runtime, list(gang))
    for replica in gang:
        runtime.start(replica, devices, meeting)
