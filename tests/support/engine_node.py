"""A node whose loop runs in a thread of its own, on a real engine and the simulated driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import docker
from docker.models.containers import Container

from agents.admission.policy import NodePolicy
from agents.contract.documents import (
    DesiredDocument,
    DesiredReplica,
    DesiredReplicaState,
    ObservedDocument,
    ObservedReplica,
    ReplicaState,
)
from agents.drill.docker_node import DrillRuntime, remove_all
from agents.hardware import Hardware
from agents.loop.node import NodeLoop
from agents.nvml.session import Nvml
from agents.simdriver.install import install, uninstall
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.state.journal import Journal

SECONDS = 300.0


class EngineNode:
    """From `start` to `end`. The environment's DOCKER_HOST names the engine."""

    def __init__(self, home: Path) -> None:
        self.name = f"n{uuid4().hex[:7]}"
        home.mkdir(parents=True, exist_ok=True)
        store = Store(home / "driver.json")
        store.create(new_node(board="H200-141GB", gpus=1, seed=1, latency=False))
        install(store.path)
        self.journal = Journal(home / "journal.sqlite3")
        self.runtime = DrillRuntime(home / "logs", self.name, NodePolicy())
        hardware = Hardware(Nvml(), self.runtime, home, simulated=True)
        self.loop = NodeLoop(
            self.name, self.journal, hardware, self.runtime, NodePolicy(), self._take
        )
        self.replicas: dict[str, DesiredReplica] = {}
        self._observed: ObservedDocument | None = None
        self._news = threading.Condition()
        self._revision = 0
        self._thread = threading.Thread(target=self.loop.run)

    def start(self) -> None:
        self.loop.renew_lease(float("inf"))
        self._thread.start()

    def want(self, *replicas: DesiredReplica) -> None:
        """These too, or these as they are now."""
        self.replicas |= {replica.id: replica for replica in replicas}
        self._accept()

    def cancel(self, replica: DesiredReplica) -> None:
        self.want(replace(replica, wish=DesiredReplicaState.STOP))

    def reported(self, replica: DesiredReplica) -> ObservedReplica | None:
        """As the node last reported it."""
        observed = self._observed
        found = [r for r in observed.replicas if r.id == replica.id] if observed else []
        return found[0] if found else None

    def until(self, reached: Callable[[], object], what: str) -> None:
        """Waits for a report that makes it true."""
        end = time.monotonic() + SECONDS
        with self._news:
            while not reached():
                assert time.monotonic() < end, f"waited in vain for {what}"
                self._news.wait(0.05)

    def until_state(self, replica: DesiredReplica, state: ReplicaState) -> ObservedReplica:
        def reached() -> bool:
            found = self.reported(replica)
            return found is not None and found.state is state

        self.until(reached, f"{replica.id} to be {state}")
        found = self.reported(replica)
        assert found is not None
        return found

    def containers(self) -> list[Container]:
        label = {"label": f"tessera.node={self.name}"}
        return list(self.runtime.client.containers.list(all=True, filters=label))

    def end(self) -> None:
        """Nothing of it is left on the engine."""
        self.loop.stop()
        self._thread.join()
        client = docker.from_env()
        try:
            remove_all(client, self.name)
        finally:
            client.close()
            self.runtime.close()
            self.journal.close()
            uninstall()

    def _accept(self) -> None:
        self._revision += 1
        self.loop.accept(
            DesiredDocument(
                node=self.name, revision=self._revision, replicas=tuple(self.replicas.values())
            )
        )

    def _take(self, document: ObservedDocument) -> None:
        with self._news:
            self._observed = document
            self._news.notify_all()


def a_replica(name: str, image: str, command: tuple[str, ...] = ("true",)) -> DesiredReplica:
    return DesiredReplica(
        id=name,
        job=f"job-{name}",
        wish=DesiredReplicaState.RUN,
        image=image,
        command=command,
        memory_mib=64,
        cpu_milli=100,
        shm_mib=16,
        grace_seconds=30,
    )
