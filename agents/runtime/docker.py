"""The only file that talks to Docker. Builds hardened containers from typed values; users never
reach a HostConfig. Labels tell which containers are ours, and of which node."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import DeviceRequest, LogConfig, Ulimit

from agents.contract.documents import DesiredReplica, Rendezvous, RuntimeKind
from agents.policy import Policy
from agents.rendezvous import command, environment
from agents.runtime.base import Phase, RuntimeFailure, Seen, container_name

LABEL = "tessera."
PORT = 29_500
OUTPUT = "/output"
# Engine 20.10 and newer; named, so that the SDK need not ask (and leave a socket open).
API_VERSION = "1.41"
TIMEOUT_SECONDS = 60
PHASES = {"created": Phase.CREATED, "exited": Phase.EXITED, "dead": Phase.EXITED}


class DockerRuntime:
    """Containers of one node on one engine. Logs are copied into `home` as they come, so that
    offsets stay when the engine rotates its own."""

    kind = RuntimeKind.DOCKER

    def __init__(self, home: Path, node: str, policy: Policy) -> None:
        self.home = home
        self.home.mkdir(parents=True, exist_ok=True)
        self.node = node
        self.policy = policy
        try:
            self.client = docker.from_env(version=API_VERSION, timeout=TIMEOUT_SECONDS)
            self.info = self.client.info()
        except DockerException as error:
            raise RuntimeFailure("docker", f"no Docker Engine answers: {error}") from error
        self._changed: Callable[[], None] = lambda: None
        self._followed: set[str] = set()
        self._lock = threading.Lock()

    def version(self) -> str:
        return str(self.info.get("ServerVersion", ""))

    def fabric(self) -> str:
        """A job's own bridge reaches over one engine; the host's network over all hosts."""
        if self.policy.network == "host":
            return "host-network"
        return f"docker:{self.info.get('ID', '')}"

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        for container in self._containers():
            self._follow(container)

    def seen(self) -> dict[str, Seen]:
        found = (self._seen(container) for container in self._containers())
        return {seen.replica: seen for seen in found}

    def prepare(self, replica: DesiredReplica, devices: Sequence[str]) -> None:
        """Create with the rendezvous that rank 0 will have: on a job's bridge it is known."""
        address = container_name(replica.job, replica.attempt, 0)
        self._create(replica, devices, Rendezvous(address=address, port=PORT))

    def start(self, replica: DesiredReplica, devices: Sequence[str], meeting: Rendezvous) -> None:
        name = container_name(replica.job, replica.attempt, replica.rank)
        baked = Rendezvous(address=container_name(replica.job, replica.attempt, 0), port=PORT)
        with _told("start"):
            if (meeting.address, meeting.port) != (baked.address, baked.port):
                self.client.containers.get(name).remove()
                self._create(replica, devices, meeting)
            container = self.client.containers.get(name)
            container.start()
        self._follow(container)

    def stop(self, replica_id: str, grace_seconds: int) -> None:
        for container in self._containers(replica_id):
            with contextlib.suppress(NotFound), _told("stop"):
                container.stop(timeout=grace_seconds)

    def remove(self, replica_id: str) -> None:
        for container in self._containers(replica_id):
            job = container.labels[f"{LABEL}job"]
            with contextlib.suppress(NotFound), _told("remove"):
                container.remove(force=True)
            self._network_remove(job)
        (self.home / f"{replica_id}.log").unlink(missing_ok=True)

    def log(self, replica_id: str, offset: int, limit: int) -> bytes:
        path = self.home / f"{replica_id}.log"
        if not path.exists():
            return b""
        with path.open("rb") as log:
            log.seek(offset)
            return log.read(limit)

    def close(self) -> None:
        self._changed = lambda: None
        self.client.close()

    def _create(self, replica: DesiredReplica, devices: Sequence[str], meeting: Rendezvous) -> None:
        name = container_name(replica.job, replica.attempt, replica.rank)
        with _told("prepare"):
            self._image(replica.image)
            options = self._options(replica, devices, meeting)
            try:
                self.client.containers.create(name=name, **options)
            except APIError as error:
                if error.status_code != 409:
                    raise
                self._adopt(name, replica)

    def _adopt(self, name: str, replica: DesiredReplica) -> None:
        """The name is taken: ours from before a crash, or something that must go."""
        container = self.client.containers.get(name)
        if container.labels.get(f"{LABEL}replica") != replica.id:
            sentence = f"another container is called {name}: remove it"
            raise RuntimeFailure("name_taken", sentence)

    def _image(self, image: str) -> None:
        try:
            self.client.images.get(image)
        except ImageNotFound:
            try:
                self.client.images.pull(image)
            except APIError as error:
                sentence = f"image {image} is not here and cannot be pulled: {error.explanation}"
                raise RuntimeFailure("image_pull", sentence) from error

    def _options(
        self, replica: DesiredReplica, devices: Sequence[str], meeting: Rendezvous
    ) -> dict[str, Any]:
        """The hardened container. There is no field here that a user can set freely."""
        requests = [
            DeviceRequest(driver="nvidia", device_ids=list(devices), capabilities=[["gpu"]])
        ]
        return {
            "image": replica.image,
            "command": command(replica),
            "entrypoint": [],
            "environment": environment(replica, devices, meeting, OUTPUT),
            "labels": self._labels(replica),
            "device_requests": requests if devices else [],
            "hostname": container_name(replica.job, replica.attempt, replica.rank),
            "network": self._network(replica.job),
            "user": str(self.policy.user),
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": self.policy.pids,
            "mem_limit": f"{replica.memory_mib}m",
            "memswap_limit": f"{replica.memory_mib}m",
            "nano_cpus": replica.cpu_milli * 1_000_000,
            "shm_size": f"{replica.shm_mib}m",
            "tmpfs": {"/tmp": "nosuid,nodev", OUTPUT: "nosuid,nodev,mode=1777"},  # noqa: S108
            "ulimits": [
                Ulimit(name="nofile", soft=65_535, hard=65_535),
                Ulimit(name="core", soft=0, hard=0),
            ],
            "init": True,
            "log_config": LogConfig(type="json-file", config={"max-size": "64m"}),
            "restart_policy": {"Name": "no"},
        }

    def _labels(self, replica: DesiredReplica) -> dict[str, str]:
        values = {
            "node": self.node,
            "replica": replica.id,
            "job": replica.job,
            "attempt": replica.attempt,
            "rank": replica.rank,
            "fence": replica.fence,
        }
        return {f"{LABEL}{key}": str(value) for key, value in values.items()}

    def _network(self, job: str) -> str:
        if self.policy.network == "host":
            return "host"
        name = f"tessera-job-{job[:13]}"
        with contextlib.suppress(APIError):
            # check_duplicate: two agents on one engine make it once.
            self.client.networks.create(name, driver="bridge", check_duplicate=True)
        return name

    def _network_remove(self, job: str) -> None:
        """Refused by the engine while another container is on it; the last one out removes it."""
        for network in self.client.networks.list(names=[f"tessera-job-{job[:13]}"]):
            with contextlib.suppress(APIError):
                network.remove()

    def _containers(self, replica_id: str = "") -> list[Container]:
        labels = [f"{LABEL}node={self.node}"]
        if replica_id:
            labels.append(f"{LABEL}replica={replica_id}")
        with _told("list"):
            found = self.client.containers.list(
                all=True, filters={"label": labels}, ignore_removed=True
            )
        return list(found)

    def _seen(self, container: Container) -> Seen:
        labels = {key.removeprefix(LABEL): value for key, value in container.labels.items()}
        state = container.attrs["State"]
        phase = PHASES.get(state["Status"], Phase.RUNNING)
        return Seen(
            replica=labels["replica"],
            job=labels["job"],
            attempt=int(labels["attempt"]),
            rank=int(labels["rank"]),
            fence=int(labels["fence"]),
            phase=phase,
            container=str(container.short_id),
            address=container_name(labels["job"], int(labels["attempt"]), int(labels["rank"])),
            port=PORT,
            exit_code=int(state["ExitCode"]) if phase is Phase.EXITED else None,
            memory_kill=bool(state.get("OOMKilled")),
            sentence=str(state.get("Error", "")),
        )

    def _follow(self, container: Container) -> None:
        replica = container.labels[f"{LABEL}replica"]
        with self._lock:
            if container.status == "created" or replica in self._followed:
                return
            self._followed.add(replica)
        threading.Thread(target=self._copy, args=(container, replica), daemon=True).start()

    def _copy(self, container: Container, replica: str) -> None:
        """Copy the log until the container ends, from where an earlier copy stopped."""
        path = self.home / f"{replica}.log"
        with contextlib.suppress(DockerException, OSError):
            skip = path.stat().st_size if path.exists() else 0
            with path.open("ab", buffering=0) as log:
                for chunk in container.logs(stream=True, follow=True):
                    fresh = chunk[skip:]
                    skip = max(0, skip - len(chunk))
                    if fresh:
                        log.write(fresh)
                        self._changed()
            container.wait()
        with self._lock:
            self._followed.discard(replica)
        self._changed()


@contextlib.contextmanager
def _told(what: str) -> Any:
    try:
        yield
    except NotFound:
        raise
    except DockerException as error:
        explanation = getattr(error, "explanation", None) or str(error)
        raise RuntimeFailure("docker", f"Docker refused to {what}: {explanation}") from error
