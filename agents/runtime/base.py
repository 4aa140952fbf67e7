"""The interface of a runtime.

Container names are deterministic, so preparing a replica twice adopts its container."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from agents.contract.documents import DesiredReplica, Rendezvous, RuntimeKind
from agents.contract.gang_network import NodeOverlay
from agents.contract.image_needs import ImageNeeds
from agents.contract.message import NO_MESSAGE, Message
from agents.contract.registries import RegistryCredential
from agents.facts.failures import ReplicaFailure
from agents.facts.images import WantedImage
from agents.runtime.image_pull import PullRequest
from agents.runtime.injection import Injection
from agents.workspace.folders import ReplicaFolders

# What is called between the two signals of a stop; None where nothing is.
BeforeKill = Callable[[], None] | None


class ContainerPhase(StrEnum):
    """How far a replica's container is."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """A replica's container (or process) as the runtime reports it."""

    replica: str
    job: str
    attempt: int
    rank: int
    fence: int
    phase: ContainerPhase
    container: str
    address: str
    port: int
    # Known once it exited.
    exit_code: int | None = None
    # The kernel killed it for exceeding its memory.
    memory_kill: bool = False
    # Why it ended, if the engine gives a reason.
    sentence: str = ""
    # Unix seconds by the engine's clock, known once it ended, also while its log is still copied;
    # infinite if nothing recorded the end.
    finished_at: float | None = None
    # Of a plain process: the process id of its parent, which leads its session, while it lives.
    leader: int | None = None
    # Which bytes its image is; empty if it has none, or an older agent created it.
    image_digest: str = ""


@dataclass
class RuntimeFailure(Exception):
    """The runtime could not do what was requested for a replica."""

    code: str
    sentence: str
    # What the sentence was made of, where the portal can translate it.
    message: Message = NO_MESSAGE

    def __str__(self) -> str:
        return self.sentence

    def of_replica(self) -> ReplicaFailure:
        return ReplicaFailure(self.code, self.sentence, self.message)


def is_of_other_image(replica: DesiredReplica, status: ContainerStatus) -> bool:
    """Whether its container never ran, and has other bytes than the replica is to have."""
    has_to = replica.image_digest and replica.image_digest != status.image_digest
    return bool(has_to) and status.phase is ContainerPhase.CREATED


class EngineUnreachable(Exception):
    """The engine did not answer, so whether it did what was requested is unknown.

    Not a failure of any replica: the next round checks again."""


class Runtime(Protocol):
    """Runs the replicas of one node.

    Every call may be repeated, after a crash at any point of the earlier one or after it raised
    EngineUnreachable. `containers` raises RuntimeFailure instead: without it there is no round."""

    kind: RuntimeKind

    @property
    def injection(self) -> Injection | None:
        """How devices get into containers; None if replicas are no containers."""

    def version(self) -> str:
        """The engine's version, for the inventory."""

    def fabric(self) -> str:
        """Names the network that the runtime's replicas share."""

    limits_egress: bool
    """Whether it carries out every `EgressPolicy`."""

    def overlay(self) -> NodeOverlay | None:
        """What it offers gangs over several engines; None if they stay on this one."""

    def connect(self, replicas: Iterable[DesiredReplica]) -> None:
        """Replicas that are here reach their gangs on other nodes, as these are now. What fails is
        logged, and tried again with the next call."""

    def serving_since(self) -> float:
        """Since when, by the clock of `finished_at`, no stop of the engine can have ended a
        container. Raises RuntimeFailure, as `containers` does."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever a container's phase changes, from any thread."""

    def containers(self) -> dict[str, ContainerStatus]:
        """Every container of this node, by replica id."""

    def require_image(self, image: WantedImage) -> None:
        """Raises ImageAbsent if it must be pulled before a replica can be prepared with it."""

    def image_needs(self, image: WantedImage) -> ImageNeeds:
        """What an image that is here needs of a node. Raises ImageAbsent."""

    def new_pull(
        self, image: WantedImage, credential: RegistryCredential | None = None
    ) -> PullRequest:
        """One try to pull it, which its `run` begins; by the credential of its project, or as this
        machine may pull it."""

    def prepare(self, replica: DesiredReplica, devices: Sequence[str]) -> None:
        """Create the container without starting it; again, if it has an image of another digest
        than it is to have. Raises RuntimeFailure or ImageAbsent."""

    def start(
        self, replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous
    ) -> None:
        """Start the container; no effect if it runs already. Raises RuntimeFailure."""

    def processes(self, replica_id: str) -> list[int]:
        """Pids of what runs in it, as this machine counts them; empty if nothing does."""

    def stop(self, replica_id: str, grace_seconds: int, before_kill: BeforeKill = None) -> None:
        """Send SIGTERM, then kill after the grace period. Returns once it has ended.

        `before_kill` is called if it still runs when the grace period is over."""

    def remove(self, replica_id: str) -> None:
        """Delete the ended container, its log and its folders; no effect if it is gone."""

    def make_folders(self, replica: DesiredReplica) -> ReplicaFolders:
        """The folders in which it will work; `prepare` takes them as they are. Raises
        RuntimeFailure."""

    def keep(self, replicas: Collection[str]) -> None:
        """Remove the folders of all other replicas."""

    def used_disk_bytes(self, replica_id: str, limit: int) -> int:
        """What it has on disk, or any number above `limit` as soon as that is certain. Raises
        RuntimeFailure or EngineUnreachable."""

    def log(self, replica_id: str, offset: int, limit: int) -> bytes:
        """Bytes of the log from `offset`; empty at the end. Offsets never change."""

    def tidy(self) -> None:
        """Remove what is kept ready for later replicas, on a node that gets none."""

    def close(self) -> None:
        """Release the engine; containers keep running."""
