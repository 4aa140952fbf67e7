"""A node's Docker runtime on the test engine, and the broom that follows it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import docker
import pytest

from agents.admission.policy import NodePolicy
from agents.runtime.docker import DockerRuntime
from agents.runtime.grants import GrantProvider, no_grant


class DockerNode:
    """One node's name and folder; each `runtime()` is an agent that starts anew on it."""

    def __init__(self, engine: str, home: Path) -> None:
        self.name = f"node-{uuid4()}"
        self.home = home
        self.client = docker.DockerClient(base_url=engine, version="1.41", timeout=60)
        self.running: list[DockerRuntime] = []
        self.there_before = {network.id for network in self.client.networks.list()}

    def runtime(self, grant: GrantProvider = no_grant, **policy) -> DockerRuntime:
        made = DockerRuntime(self.home, self.name, NodePolicy(**policy), grant)
        self.running.append(made)
        return made

    def containers(self, **filters) -> list:
        label = {"label": f"tessera.node={self.name}"}
        return self.client.containers.list(all=True, filters=label | filters)

    def container(self, replica):
        found = self.containers(label=f"tessera.replica={replica.id}")
        assert len(found) == 1, found
        return found[0]

    def networks(self, *jobs: str) -> list:
        """The networks that these gangs have of their own, whoever made them."""
        names = [f"tessera-job-{job[:13]}" for job in jobs]
        return [n for n in self.client.networks.list() if n.name in names]

    def lanes(self) -> list:
        return self.client.networks.list(filters={"label": f"tessera.lane={self.name}"})

    def sweep(self) -> None:
        for runtime in self.running:
            runtime.close()
        for container in self.containers():
            container.remove(force=True)
        for network in self.client.networks.list():
            if network.id not in self.there_before:
                with contextlib.suppress(docker.errors.APIError):
                    network.remove()
        self.client.close()


@pytest.fixture
def docker_node(docker_engine, docker_image, tmp_path, monkeypatch) -> Iterator[DockerNode]:
    monkeypatch.setenv("DOCKER_HOST", docker_engine)
    node = DockerNode(docker_engine, tmp_path / "logs")
    yield node
    node.sweep()
