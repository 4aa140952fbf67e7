"""A node of the drill on a real engine, observed by its own client, independent of the agent."""

import contextlib
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from docker import APIClient, DockerClient
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.models.networks import Network

from agents.admission.policy import NodePolicy
from agents.contract.documents import DesiredReplica, Rendezvous
from agents.drill.docker_script import COMPLETE_LOG, START_LINE
from agents.drill.node import DrillNode
from agents.drill.start_counts import StartCounter
from agents.drill.threaded_kill_points import ThreadedKillSwitch, client_kill_points
from agents.launchers.launch import DEVICES
from agents.loop.workers import InlineWorkers, Workers
from agents.runtime.base import ContainerPhase
from agents.runtime.docker import DockerRuntime
from agents.runtime.docker_ends import PHASES
from agents.runtime.docker_engine import connect_engine
from agents.runtime.docker_images import ChosenImage
from agents.runtime.docker_recipe import LABEL

STOP_SECONDS = 20


class DrillRuntime(DockerRuntime):
    """The Docker runtime without GPUs: the driver is simulated, so the engine has none."""

    def _options(
        self,
        replica: DesiredReplica,
        devices: Sequence[str],
        meeting: Rendezvous,
        image: ChosenImage,
    ) -> dict[str, Any]:
        return super()._options(replica, devices, meeting, image) | {
            "device_requests": [],
            "runtime": None,
        }


class DockerDrillNode(DrillNode):
    """`name` labels the drill's containers and networks and is unique on the engine."""

    def __init__(self, home: Path, name: str, switch: ThreadedKillSwitch) -> None:
        super().__init__(home, name)
        self.switch = switch
        self.client = connect_engine().client
        self.start_counter = StartCounter(name)
        self._clients: list[APIClient] = []

    def new_runtime(self) -> DrillRuntime:
        with client_kill_points(self.switch, self._clients):
            return DrillRuntime(self.home / "logs", self.name, NodePolicy())

    def new_workers(self, on_done: Callable[[], None]) -> Workers:
        """In place: its pulls are those of the engine, and fail at once."""
        return InlineWorkers(on_done)

    def kill(self) -> None:
        """Ends its threads at their next request and closes its connections, as a kill would."""
        super().kill()
        self.switch.is_dead = True
        if self.runtime is not None:
            self.runtime.close()
            self.runtime = None
        for client in self._clients:
            client.close()
        self._clients.clear()
        self.switch.revive()

    def phases(self) -> dict[str, ContainerPhase]:
        return {
            _replica(c): PHASES.get(c.status, ContainerPhase.RUNNING) for c in self.containers()
        }

    def problem(self) -> str:
        """An incomplete or repeated log; a program on a slice that does not exist."""
        uuids = set(self.slices().values())
        for container in self.containers():
            replica, status = _replica(container), container.status
            if status == "exited" and self._log(replica) != COMPLETE_LOG:
                return f"the log of {replica}, there is {self._log(replica)!r}"
            env, prefix = container.attrs["Config"]["Env"], f"{DEVICES}="
            given = {e.removeprefix(prefix) for e in env if e.startswith(prefix)}
            if status == "running" and not given <= uuids:
                return f"the devices of {replica}: it was given {given}"
        return ""

    def run_ids(self) -> dict[str, str]:
        return {_replica(c): run_id(c) for c in self.containers() if c.status == "running"}

    def end_programs(self, how: signal.Signals) -> None:
        """By the engine, as it does when it is stopped."""
        for container in self.containers():
            container.stop(timeout=STOP_SECONDS)

    def has_started(self, replica: DesiredReplica) -> bool:
        return any(START_LINE in c.logs() for c in self.containers() if _replica(c) == replica.id)

    def second_starts(self, jobs: set[str]) -> int:
        counts = self.start_counter.by_job()
        return sum(max(0, counts[job] - 1) for job in jobs)

    def count_leftovers(self) -> int:
        """The number of containers, networks, logs and instances."""
        logs = len(list((self.home / "logs").glob("*")))
        return len(self.containers()) + len(self.networks()) + logs + len(self.slices())

    def containers(self) -> list[Container]:
        return _containers(self.client, f"{LABEL}node={self.name}")

    def networks(self) -> list[Network]:
        """The node's lane networks, and the bridges of its jobs."""
        return [n for n in self.client.networks.list() if _is_of(n.attrs["Labels"], self.name)]

    def end(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self.client.close)
            stack.callback(self._drop_journal)
            stack.callback(remove_all, self.client, self.name)
            stack.callback(self.start_counter.close)
            stack.callback(self.kill)

    def _log(self, replica: str) -> bytes:
        return self.runtime.log(replica, 0, 1 << 20) if self.runtime else b""


def run_id(container: Container) -> str:
    """Changes if the container is started or created again."""
    state = container.attrs["State"]
    count = container.attrs["RestartCount"]
    return f"{container.short_id} {state['Pid']} {state['StartedAt']} {count}"


def remove_all(client: DockerClient, prefix: str) -> None:
    """Removes everything on the engine of nodes whose name begins with `prefix`."""
    for container in _containers(client, f"{LABEL}node"):
        if container.labels[f"{LABEL}node"].startswith(prefix):
            with contextlib.suppress(NotFound):
                container.remove(force=True)
    for network in client.networks.list():
        if _is_of(network.attrs["Labels"], prefix):
            with contextlib.suppress(APIError):
                network.remove()


def _containers(client: DockerClient, label: str) -> list[Container]:
    filters: dict[str, str | list[str] | bool] = {"label": label}
    return list(client.containers.list(all=True, filters=filters, ignore_removed=True))


def _is_of(labels: dict[str, str] | None, prefix: str) -> bool:
    found = labels or {}
    owners = (found.get(f"{LABEL}lane", ""), found.get(f"{LABEL}job", ""))
    return any(owner.startswith(prefix) for owner in owners)


def _replica(container: Container) -> str:
    return str(container.labels[f"{LABEL}replica"])
