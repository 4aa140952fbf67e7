"""The contract of a runtime. Names are deterministic, so preparing twice adopts, never doubles."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from agents.contract.documents import DesiredReplica, Rendezvous, RuntimeKind


class ContainerPhase(StrEnum):
    """Where a replica's container is."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """A replica's container as the runtime has it. `exit_code` is known once it exited."""

    replica: str
    job: str
    attempt: int
    rank: int
    fence: int
    phase: ContainerPhase
    container: str
    address: str
    port: int
    exit_code: int | None = None
    memory_kill: bool = False
    sentence: str = ""


@dataclass
class RuntimeFailure(Exception):
    """A replica that the runtime could not prepare or start: a code and why."""

    code: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


class EngineUnreachable(Exception):
    """The engine did not answer: whether it did what it was asked is not known. No failure of any
    replica; the next round looks again."""


class Runtime(Protocol):
    """Every call may be repeated after a crash at any point of the one before, or where it raised
    EngineAway. `seen` alone never does: a round without it is none, and RuntimeFailure says so."""

    kind: RuntimeKind

    def version(self) -> str:
        """The engine's version, for the inventory."""

    def fabric(self) -> str:
        """The network that this runtime's replicas share."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever a container's phase changes, from any thread."""

    def containers(self) -> dict[str, ContainerStatus]:
        """Every container of this node, by replica id."""

    def prepare(self, replica: DesiredReplica, devices: Sequence[str]) -> None:
        """Create the container, not started. Raises RuntimeFailure."""

    def start(
        self, replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous
    ) -> None:
        """Let it run. Harmless where it runs already. Raises RuntimeFailure."""

    def stop(self, replica_id: str, grace_seconds: int) -> None:
        """Ask to end, then kill when the grace is over. Returns once it has ended."""

    def remove(self, replica_id: str) -> None:
        """Delete the ended container and its log. Harmless where it is gone."""

    def log(self, replica_id: str, offset: int, limit: int) -> bytes:
        """Bytes of the log from `offset`; empty at the end. Offsets never change."""

    def tidy(self) -> None:
        """Take away what stands ready for the next replica, on a node that gets none."""

    def close(self) -> None:
        """Let go of everything; containers run on."""


def container_name(job: str, attempt: int, rank: int) -> str:
    """The same for the same replica, whoever creates it and how often."""
    return f"tessera-{job[:13]}-{attempt}-{rank}"


def free_port(address: str) -> int:
    """A port that is free now at `address` (empty: at all), for rank 0 to listen on."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
