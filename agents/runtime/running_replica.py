"""The replica that a stream of the tunnel is for: of the attempt that its target names, and while
it runs."""

from typing import Protocol

from docker.models.containers import Container

from agents.contract.tunnel import StreamRefusal
from agents.runtime.base import ContainerPhase, ContainerStatus, Runtime
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_errors import engine_errors
from agents.runtime.docker_recipe import LABEL
from agents.tunnel.link import OpenRefused


class ReplicaTarget(Protocol):
    """Of a port, a terminal or SSH."""

    @property
    def attempt(self) -> int:
        """Its id, which is the replica's fence."""

    @property
    def rank(self) -> int: ...


def running_replica(runtime: Runtime, target: ReplicaTarget) -> ContainerStatus:
    """Raises OpenRefused, and what `containers` raises."""
    for status in runtime.containers().values():
        is_target = (status.fence, status.rank) == (target.attempt, target.rank)
        if is_target and status.phase is ContainerPhase.RUNNING:
            return status
    raise OpenRefused(StreamRefusal.REPLICA_UNKNOWN)


def running_container(runtime: DockerRuntime, target: ReplicaTarget) -> Container:
    """The same as the engine has it now. Raises OpenRefused, and what engine_errors raises."""
    labels = {"node": runtime.node, "fence": target.attempt, "rank": target.rank}
    filters: dict[str, str | list[str] | bool] = {
        "label": [f"{LABEL}{key}={value}" for key, value in labels.items()],
        "status": "running",
    }
    with engine_errors("list"):
        for container in runtime.client.containers.list(filters=filters, ignore_removed=True):
            return container
    raise OpenRefused(StreamRefusal.REPLICA_UNKNOWN)
