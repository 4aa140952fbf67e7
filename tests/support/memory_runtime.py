"""A runtime that keeps its containers in memory."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.contract.documents import DesiredReplica, Rendezvous, RuntimeKind
from agents.contract.gang_network import NodeOverlay
from agents.contract.image_needs import NO_NEEDS, ImageNeeds
from agents.contract.registries import RegistryCredential
from agents.facts.images import WantedImage
from agents.runtime.base import BeforeKill, ContainerPhase, ContainerStatus, RuntimeFailure
from agents.runtime.image_pull import PullRequest
from agents.runtime.injection import Injection
from agents.workspace.folders import ReplicaFolders

# The UUID of each slice that stands, by GPU index, start and profile.
StandingSlices = Mapping[tuple[int, int, str], str]


class MemoryRuntime:
    """Containers as values. `story` is what was asked of it, with the slices that stood then."""

    kind = RuntimeKind.PROCESS
    injection: Injection | None = None
    limits_egress = False

    def __init__(self, slices: Callable[[], StandingSlices]) -> None:
        self.by_replica: dict[str, ContainerStatus] = {}
        self.devices: dict[str, tuple[str, ...]] = {}
        self.logs: dict[str, bytes] = {}
        self.story: list[tuple[str, str, StandingSlices]] = []
        self.slices = slices
        self.broken: set[str] = set()
        self.needs: dict[str, ImageNeeds] = {}
        self.since = 0.0
        self.graces: list[tuple[str, int]] = []
        self.used: dict[str, int] = {}

    def serving_since(self) -> float:
        return self.since

    def version(self) -> str:
        return "1"

    def overlay(self) -> NodeOverlay | None:
        return None

    def connect(self, replicas: Iterable[DesiredReplica]) -> None:
        """Nothing is to be joined."""

    def fabric(self) -> str:
        return "here"

    def watch(self, changed: Callable[[], None]) -> None:
        """Nothing changes by itself."""

    def containers(self) -> dict[str, ContainerStatus]:
        return dict(self.by_replica)

    def make_folders(self, replica: DesiredReplica) -> ReplicaFolders:
        raise AssertionError("no replica here has files")

    def keep(self, replicas: Collection[str]) -> None:
        """There are no folders."""

    def used_disk_bytes(self, replica_id: str, limit: int) -> int:
        return self.used.get(replica_id, 0)

    def require_image(self, image: WantedImage) -> None:
        """Each is here."""

    def image_needs(self, image: WantedImage) -> ImageNeeds:
        return self.needs.get(image.name, NO_NEEDS)

    def new_pull(
        self, image: WantedImage, credential: RegistryCredential | None = None
    ) -> PullRequest:
        raise AssertionError("each image is here")

    def prepare(self, replica: DesiredReplica, devices: Sequence[str]) -> None:
        if replica.id in self.broken:
            raise RuntimeFailure("image_pull", "no such image")
        self.tell("prepare", replica.id)
        who = (replica.id, replica.job, replica.attempt, replica.rank, replica.fence)
        self.devices[replica.id] = tuple(devices)
        self.by_replica[replica.id] = ContainerStatus(
            *who, ContainerPhase.CREATED, f"tessera-{replica.id}", "10.0.0.1", 29_500
        )

    def start(
        self, replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous
    ) -> None:
        self.tell("start", replica.id)
        self.becomes(replica.id, ContainerPhase.RUNNING)

    def processes(self, replica_id: str) -> list[int]:
        return []

    def stop(self, replica_id: str, grace_seconds: int, before_kill: BeforeKill = None) -> None:
        if self.by_replica[replica_id].phase is ContainerPhase.RUNNING:
            self.tell("stop", replica_id)
            self.graces.append((replica_id, grace_seconds))
            self.ends(replica_id, 143)

    def remove(self, replica_id: str) -> None:
        self.logs.pop(replica_id, None)
        if self.by_replica.pop(replica_id, None):
            self.tell("remove", replica_id)

    def log(self, replica_id: str, offset: int, limit: int) -> bytes:
        return self.logs.get(replica_id, b"")[offset : offset + limit]

    def close(self) -> None:
        """There is no engine."""

    def tidy(self) -> None:
        """Nothing is kept ready."""

    def tell(self, what: str, replica: str) -> None:
        self.story.append((what, replica, self.slices()))

    def ends(self, replica: str, exit_code: int, at: float | None = None) -> None:
        ended_at = time.time() if at is None else at
        self.becomes(replica, ContainerPhase.EXITED, exit_code=exit_code, finished_at=ended_at)

    def becomes(self, replica: str, phase: ContainerPhase, **fields: Any) -> None:
        self.by_replica[replica] = replace(self.by_replica[replica], phase=phase, **fields)
