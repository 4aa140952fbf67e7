"""Builds hardened containers from typed values; users never reach a HostConfig. Labels tell which
containers and networks are ours, and of which node: nothing else is ever touched."""

import contextlib
import logging
import os
import resource
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import LogConfig, Mount, Ulimit

from agents.contract.documents import DesiredReplica, Rendezvous, RuntimeKind
from agents.mps.grants import Grant, Granting, nothing
from agents.policy import Policy
from agents.rendezvous import command, environment
from agents.runtime.base import (
    EngineAway,
    Phase,
    RuntimeFailure,
    Seen,
    container_name,
    free_port,
)
from agents.runtime.docker_log import LogCopy, mark_path
from agents.runtime.docker_network import HOST, Networks
from agents.runtime.injection import device_requests

LABEL = "tessera."
PORT = 29_500
OUTPUT = "/output"
# Engine 20.10 and newer; named, so that the SDK need not ask (and leave a socket open).
API_VERSION = "1.41"
TIMEOUT_SECONDS = 60
# How long the last words of an ended container may take to be copied.
LAST_WORDS_SECONDS = 10
# Two files: a follower still finds what stood in the one before.
LOG_ROTATION = {"max-size": "64m", "max-file": "2"}
# Programs compile into /tmp and load from there (PyTorch, Triton); Docker's default is noexec.
TMPFS = "exec,nosuid,nodev,mode=1777"
# The least that the engine takes, in billionths of a CPU.
LEAST_NANO_CPUS = 10_000_000
OPEN_FILES = 65_535
PHASES = {"created": Phase.CREATED, "exited": Phase.EXITED, "dead": Phase.EXITED}

log = logging.getLogger("agents.runtime.docker")


class DockerRuntime:
    """Containers of one node on one engine. Logs are copied into `home` as they come."""

    kind = RuntimeKind.DOCKER

    def __init__(self, home: Path, node: str, policy: Policy, grant: Granting = nothing) -> None:
        self.home = home
        self.grant = grant
        self.home.mkdir(parents=True, exist_ok=True)
        self.node = node
        self.policy = policy
        try:
            self.client = docker.from_env(version=API_VERSION, timeout=TIMEOUT_SECONDS)
            self.info = self.client.info()
        except (DockerException, OSError) as error:
            raise RuntimeFailure("docker", f"no Docker Engine answers: {error}") from error
        self._changed: Callable[[], None] = lambda: None
        self._copies: dict[str, tuple[LogCopy, threading.Thread]] = {}
        self._whole: set[str] = set()
        self._networks = Networks(self.client, node, on_host=policy.network == HOST)
        self._closed = False
        self._lock = threading.Lock()
        # A job's network and its containers are made, and taken away, in one piece.
        self._making = threading.Lock()

    def version(self) -> str:
        return str(self.info.get("ServerVersion", ""))

    def fabric(self) -> str:
        """A job's own bridge reaches over one engine; the host's network over all hosts."""
        if self.policy.network == HOST:
            return "host-network"
        return f"docker:{self.info.get('ID', '')}"

    def watch(self, changed: Callable[[], None]) -> None:
        """Begins with a sweep: the agent before may have ended between a container and its network,
        and what it was to make then is perhaps wanted no more."""
        self._changed = changed
        self.seen()
        with self._making, _told("remove the network"):
            self._networks.sweep()

    def seen(self) -> dict[str, Seen]:
        """An ended container counts as running until its log is whole: what is told as ended may
        be removed."""
        found = {}
        try:
            containers = self._containers()
        except EngineAway as away:
            raise RuntimeFailure("docker", str(away)) from away
        for container in containers:
            self._follow(container)
            seen = self._seen(container)
            found[seen.replica] = seen
        return found

    def prepare(self, replica: DesiredReplica, devices: Sequence[str]) -> None:
        """Create with the rendezvous that rank 0 will have: on a job's bridge it is known."""
        with _told("prepare"):
            if not self._containers(replica.id):
                self._image(replica.image)
                self._create(replica, devices, self._expected(replica))

    def start(self, replica: DesiredReplica, devices: Sequence[str], meeting: Rendezvous) -> None:
        """Where the gang meets elsewhere than expected, or the devices were carved anew since,
        the container is made again first. One that ever ran is not started a second time."""
        with _told("start"):
            found = self._containers(replica.id)
            if not found:
                raise RuntimeFailure("vanished", "its container is gone from the node")
            container = next((c for c in found if c.status != "created"), None)
            if container is None:
                container = self._given(found, replica, devices, meeting)
                self._networks.start(container, replica)
                container.reload()
        self._follow(container)

    def stop(self, replica_id: str, grace_seconds: int) -> None:
        for container in self._containers(replica_id):
            self._follow(container)
            with _told("stop"), contextlib.suppress(NotFound):
                container.stop(timeout=grace_seconds)
            self._await_copy(replica_id)

    def remove(self, replica_id: str) -> None:
        """The container after its log: an agent that ends in between copies the log once more, and
        none is left that nobody asks for. The network last; see `watch`."""
        found = self._containers(replica_id)
        with self._lock:
            copy = self._copies.get(replica_id)
            self._whole.add(replica_id)  # nobody begins to copy it again meanwhile
        if copy is not None:
            copy[0].stop()
            self._await_copy(replica_id)
        for path in (self._log(replica_id), mark_path(self._log(replica_id))):
            path.unlink(missing_ok=True)
        for container in found:
            with _told("remove"), contextlib.suppress(NotFound):
                container.remove(force=True)
        with self._making, _told("remove the network"):
            self._networks.sweep()
        with self._lock:
            self._whole.discard(replica_id)

    def log(self, replica_id: str, offset: int, limit: int) -> bytes:
        # It may be taken away at any moment: whoever asks is not who removes.
        with contextlib.suppress(FileNotFoundError), self._log(replica_id).open("rb") as copied:
            copied.seek(offset)
            return copied.read(limit)
        return b""

    def tidy(self) -> None:
        with self._making, _told("remove the network"):
            self._networks.tidy()

    def close(self) -> None:
        self._changed = lambda: None
        with self._lock:
            self._closed = True
            copies = list(self._copies.values())
        for copy, thread in copies:
            copy.stop()
            thread.join(LAST_WORDS_SECONDS)
        self.client.close()

    def _log(self, replica_id: str) -> Path:
        return self.home / f"{replica_id}.log"

    def _expected(self, replica: DesiredReplica) -> Rendezvous:
        """Where this gang will meet, if rank 0 is on this engine."""
        if self.policy.network == HOST:
            return Rendezvous(address=os.uname().nodename, port=free_port(""))
        names = [container_name(replica.job, replica.attempt, i) for i in range(replica.world)]
        return Rendezvous(address=names[0], port=PORT, peers=tuple(names))

    def _create(
        self, replica: DesiredReplica, devices: Sequence[str], meeting: Rendezvous
    ) -> Container:
        name = container_name(replica.job, replica.attempt, replica.rank)
        with self._making:
            options = self._options(replica, devices, meeting)
            try:
                return self.client.containers.create(name=name, **options)
            except APIError as error:
                if error.status_code != 409:
                    raise
                found = self._named(name)
                if found.labels.get(f"{LABEL}replica") == replica.id:
                    return found
                sentence = f"another container is called {name}: remove it"
                raise RuntimeFailure("name_taken", sentence) from error

    def _named(self, name: str) -> Container:
        """The container that has a name already; another node's agent may have made it. Raises
        EngineAway where the engine is still at it, slow to do what it was asked before."""
        try:
            return self.client.containers.get(name)
        except NotFound as error:
            raise EngineAway(f"Docker is still making {name}") from error

    def _given(
        self,
        found: list[Container],
        replica: DesiredReplica,
        devices: Sequence[str],
        meeting: Rendezvous,
    ) -> Container:
        """Of containers that never ran the one with this environment, made where there is none. The
        others go after it is there: a replica without any container is taken for a lost one."""
        env = self._environment(replica, devices, meeting)
        old = [container for container in found if not _is_given(container, env)]
        right = [container for container in found if container not in old]
        if not right:
            for container in old:
                _set_aside(container)
            right = [self._create(replica, devices, meeting)]
        for container in old + right[1:]:
            container.remove()
        return right[0]

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
        return {
            "image": replica.image,
            "command": command(replica),
            "entrypoint": [],
            "environment": self._environment(replica, devices, meeting),
            "mounts": _mounts(self.grant(replica, devices)),
            "labels": self._labels(replica, meeting),
            "device_requests": device_requests(self.policy.device_injection, devices),
            "hostname": container_name(replica.job, replica.attempt, replica.rank),
            "network": self._networks.of(replica),
            # The group too: a user that the image does not know would be of root's.
            "user": f"{self.policy.user}:{self.policy.user}",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": self.policy.pids,
            "mem_limit": f"{replica.memory_mib}m",
            "memswap_limit": f"{replica.memory_mib}m",
            "nano_cpus": max(LEAST_NANO_CPUS, replica.cpu_milli * 1_000_000),
            "shm_size": f"{replica.shm_mib}m",
            "tmpfs": {"/tmp": TMPFS, OUTPUT: TMPFS},  # noqa: S108
            "ulimits": [
                Ulimit(name="nofile", soft=_open_files(), hard=_open_files()),
                Ulimit(name="core", soft=0, hard=0),
            ],
            "init": True,
            "log_config": LogConfig(type="json-file", config=LOG_ROTATION),
            "restart_policy": {"Name": "no"},
        }

    def _environment(
        self, replica: DesiredReplica, devices: Sequence[str], meeting: Rendezvous
    ) -> dict[str, str]:
        env = environment(replica, devices, meeting, OUTPUT)
        return env | self.grant(replica, devices).env

    def _labels(self, replica: DesiredReplica, meeting: Rendezvous) -> dict[str, str]:
        name = container_name(replica.job, replica.attempt, replica.rank)
        values = {
            "node": self.node,
            "replica": replica.id,
            "job": replica.job,
            "attempt": replica.attempt,
            "rank": replica.rank,
            "fence": replica.fence,
            "address": os.uname().nodename if self.policy.network == HOST else name,
            "port": meeting.port,
        }
        return {f"{LABEL}{key}": str(value) for key, value in values.items()}

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
        if phase is Phase.EXITED and labels["replica"] not in self._whole:
            phase = Phase.RUNNING
        exit_code = int(state["ExitCode"]) if phase is Phase.EXITED else None
        return Seen(
            replica=labels["replica"],
            job=labels["job"],
            attempt=int(labels["attempt"]),
            rank=int(labels["rank"]),
            fence=int(labels["fence"]),
            phase=phase,
            container=str(container.short_id),
            address=labels["address"],
            port=int(labels["port"]),
            exit_code=exit_code,
            # The engine says so too of a program that lived on when one of its children was killed.
            memory_kill=bool(exit_code and state.get("OOMKilled")),
            sentence=str(state.get("Error", "")),
        )

    def _follow(self, container: Container) -> None:
        """Copy its log, unless that is done or being done."""
        replica = container.labels[f"{LABEL}replica"]
        with self._lock:
            known = replica in self._copies or replica in self._whole
            if self._closed or known or container.status == "created":
                return
            copy = LogCopy(container, self._log(replica), lambda: self._changed())
            thread = threading.Thread(
                target=self._copy, args=(replica, copy), name=f"log of {replica}", daemon=True
            )
            self._copies[replica] = (copy, thread)
        thread.start()

    def _copy(self, replica: str, copy: LogCopy) -> None:
        whole = True  # also where the copy fails in a way that would only repeat itself
        try:
            whole = copy.run()
        except Exception:
            log.exception("log_copy_failed", extra={"replica": replica})
        with self._lock:
            del self._copies[replica]
            if whole:
                self._whole.add(replica)
        self._changed()

    def _await_copy(self, replica_id: str) -> None:
        with self._lock:
            copy = self._copies.get(replica_id)
        if copy is not None:
            copy[1].join(LAST_WORDS_SECONDS)


def _mounts(grant: Grant) -> list[Mount]:
    """Where the daemon's shared memory stands at /dev/shm, `shm_size` counts for nothing."""
    return [Mount(target, source, type="bind") for source, target in grant.mounts]


def _is_given(container: Container, env: dict[str, str]) -> bool:
    """Whether the container was made with this environment, devices included."""
    return {f"{name}={value}" for name, value in env.items()} <= {*container.attrs["Config"]["Env"]}


def _set_aside(container: Container) -> None:
    """Its name is needed for another."""
    aside = f"-{container.short_id}"
    if not (container.name or "").endswith(aside):
        container.rename(f"{container.name}{aside}")


def _open_files() -> int:
    """Not above our own limit: an engine without the power to raise it would start nothing."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)


@contextlib.contextmanager
def _told(what: str) -> Any:
    """The engine's refusal as RuntimeFailure, its silence (an OSError of the SDK) as EngineAway."""
    try:
        yield
    except DockerException as error:  # APIError, a refusal, is an OSError too
        explanation = getattr(error, "explanation", None) or str(error)
        raise RuntimeFailure("docker", f"Docker refused to {what}: {explanation}") from error
    except OSError as error:
        raise EngineAway(f"Docker did not answer, asked to {what}: {error}") from error
