"""A container engine in memory that outlives its agents, with faults on demand."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from agents.contract.container_names import container_name
from agents.contract.documents import DesiredReplica, Rendezvous, RuntimeKind
from agents.contract.end_causes import EndCause
from agents.contract.image_needs import NO_NEEDS, ImageNeeds
from agents.contract.registries import RegistryCredential
from agents.drill.images import SimulatedImages
from agents.drill.turns import Turns
from agents.facts.ends import REQUESTED
from agents.facts.images import WantedImage
from agents.runtime.base import BeforeKill, ContainerPhase, ContainerStatus, RuntimeFailure
from agents.runtime.image_pull import PullRequest
from agents.workspace.folders import IN_CONTAINER, ReplicaFolders

PORT = 29_500
# A container that its program ended.
OWN_END = "own"
# Between the last end of a container and the first answer. Below 1 s, so that the agent may look
# again before it has noticed anything.
RESTART_SECONDS = 0.5


class MemoryEngine:
    """A runtime whose containers are values."""

    kind = RuntimeKind.PROCESS
    injection = None

    def __init__(
        self, now: Callable[[], float] = lambda: 0.0, images: SimulatedImages | None = None
    ) -> None:
        """`now`: Unix seconds, as the drill has them. `images`: none has to be pulled without."""
        self.now = now
        self.images = images or SimulatedImages(Turns(lambda: None), lambda: 0)
        self.by_replica: dict[str, ContainerStatus] = {}
        # Device UUIDs of each container.
        self.devices: dict[str, tuple[str, ...]] = {}
        # Starts of each replica.
        self.starts: dict[str, int] = {}
        self.is_away = False
        self.refuses = False
        # Of the engine's present run.
        self.started_at = now()
        # What really ended each container: an `EndCause`, REQUESTED, or OWN_END.
        self.end_causes: dict[str, str] = {}
        self.stop_cause: Callable[[str], str] = lambda _: REQUESTED

    def version(self) -> str:
        return "1"

    def fabric(self) -> str:
        return "memory"

    limits_egress = False

    def overlay(self) -> None:
        """It has one engine."""

    def connect(self, replicas: Iterable[DesiredReplica]) -> None:
        """Nothing is to be joined."""

    def serving_since(self) -> float:
        self._require()
        return self.started_at

    def watch(self, changed: Callable[[], None]) -> None:
        """Does nothing: the drill reads the containers in every round."""

    def containers(self) -> dict[str, ContainerStatus]:
        self._require()
        return dict(self.by_replica)

    def require_image(self, image: WantedImage) -> None:
        self._require()
        self.images.require(image)

    def image_needs(self, image: WantedImage) -> ImageNeeds:
        return NO_NEEDS

    def new_pull(
        self, image: WantedImage, credential: RegistryCredential | None = None
    ) -> PullRequest:
        return self.images.new_pull(image)

    def prepare(self, replica: DesiredReplica, devices: Sequence[str]) -> None:
        self._require()
        if self.refuses:
            raise RuntimeFailure("image_pull", "the image cannot be pulled")
        if replica.id not in self.by_replica:
            self.devices[replica.id] = tuple(devices)
            self.by_replica[replica.id] = ContainerStatus(
                replica=replica.id,
                job=replica.job,
                attempt=replica.attempt,
                rank=replica.rank,
                fence=replica.fence,
                phase=ContainerPhase.CREATED,
                container=container_name(replica.job, replica.attempt, replica.rank),
                address="memory",
                port=PORT,
            )

    def start(
        self, replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous
    ) -> None:
        self._require()
        found = self.by_replica.get(replica.id)
        if found is None:
            raise RuntimeFailure("vanished", "its container is gone")
        if found.phase is ContainerPhase.CREATED:
            # As a real runtime does if a slice was carved again meanwhile.
            self.devices[replica.id] = tuple(devices)
            self.starts[replica.id] = self.starts.get(replica.id, 0) + 1
            self.by_replica[replica.id] = replace(found, phase=ContainerPhase.RUNNING)

    def processes(self, replica_id: str) -> list[int]:
        return []

    def stop(self, replica_id: str, grace_seconds: int, before_kill: BeforeKill = None) -> None:
        """The program takes its SIGTERM well: it saves its work, and exits with 0."""
        self._require()
        self.exit(replica_id, 0, self.stop_cause(replica_id))

    def remove(self, replica_id: str) -> None:
        self._require()
        self.by_replica.pop(replica_id, None)
        self.devices.pop(replica_id, None)

    def make_folders(self, replica: DesiredReplica) -> ReplicaFolders:
        """There are none; nothing is written below them."""
        return IN_CONTAINER

    def keep(self, replicas: Collection[str]) -> None:
        """There are no folders."""

    def used_disk_bytes(self, replica_id: str, limit: int) -> int:
        return 0

    def log(self, replica_id: str, offset: int, limit: int) -> bytes:
        return b""

    def tidy(self) -> None:
        """Nothing is kept ready here."""

    def close(self) -> None:
        """It outlives its agents."""

    def exit(self, replica_id: str, code: int, cause: str = OWN_END) -> None:
        """The container ends, if it runs."""
        found = self.by_replica.get(replica_id)
        if found is not None and found.phase is ContainerPhase.RUNNING:
            self.by_replica[replica_id] = replace(
                found, phase=ContainerPhase.EXITED, exit_code=code, finished_at=self.now()
            )
            self.end_causes[replica_id] = cause

    def certain_own_ends(self) -> set[str]:
        """Replicas that their program ended after the engine was last restarted: only of these can
        an agent that was not there know it."""
        return {
            replica
            for replica, status in self.by_replica.items()
            if self.end_causes.get(replica) == OWN_END
            and (status.finished_at or 0.0) >= self.started_at
        }

    def restart(self, code: int, cause: str = EndCause.ENGINE_RESTARTED) -> None:
        """It ends what runs, with exit code `code`, and serves again."""
        for replica_id in list(self.running()):
            self.exit(replica_id, code, cause)
        self.images.break_off()
        self.started_at = self.now() + RESTART_SECONDS

    def running(self) -> dict[str, tuple[str, ...]]:
        """The devices of every container that runs."""
        return {
            replica: self.devices[replica]
            for replica, seen in self.by_replica.items()
            if seen.phase is ContainerPhase.RUNNING
        }

    def _require(self) -> None:
        if self.is_away:
            raise RuntimeFailure("docker", "no engine responds")
