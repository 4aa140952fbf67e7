"""Runs replicas as plain child processes, behind the same interface as containers.

Without any isolation: for a laptop without Docker and for tests; a production node's policy should
forbid it. Its state is one folder per replica, where the agent finds it after a restart.
"""

import contextlib
import json
import math
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from agents.contract.container_names import container_name
from agents.contract.documents import DesiredReplica, Rendezvous, RuntimeKind
from agents.contract.image_needs import NO_NEEDS, ImageNeeds
from agents.contract.pulls import PullCause
from agents.contract.registries import RegistryCredential
from agents.facts.images import WantedImage
from agents.host.private_files import make_private_folder
from agents.host.processes import descendants_of, pids_of_session
from agents.launchers.launch import launch_command, launch_files, replica_environment
from agents.runtime.base import (
    BeforeKill,
    ContainerPhase,
    ContainerStatus,
    RuntimeFailure,
)
from agents.runtime.child import write
from agents.runtime.child_server import ChildServer
from agents.runtime.grants import GrantProvider, no_grant
from agents.runtime.image_pull import PullFailure, PullRequest
from agents.runtime.port_offers import PortOffers
from agents.runtime.work_folders import WORK, make_workspace, write_launcher_files
from agents.workspace.disk_usage import used_bytes
from agents.workspace.environment import start_folder
from agents.workspace.folders import ReplicaFolders
from agents.workspace.workspaces import Workspaces

LOOPBACK = "127.0.0.1"
IDENTITY = ("replica", "job", "attempt", "rank", "fence", "port")
# The only variables of the agent's own environment that a replica inherits.
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")


class ProcessRuntime:
    """Folders under `home`: identity.json, gate (FIFO), go.json, exit.json, log.

    `work`: where the replicas work; by default beside `home`."""

    kind = RuntimeKind.PROCESS
    injection = None

    def __init__(
        self, home: Path, grant: GrantProvider = no_grant, work: Path | None = None
    ) -> None:
        self.home = home
        self.grant = grant
        self.workspaces = Workspaces(work or home.parent / WORK)
        make_private_folder(self.home)
        self._server = ChildServer(self.home)
        self._ports = PortOffers(LOOPBACK)
        self._changed: Callable[[], None] = lambda: None
        self._watched: set[str] = set()
        # The replicas of terminals, by the process ids of their parents. They end with this agent.
        self.terminals: dict[int, str] = {}
        self._lock = threading.Lock()

    def version(self) -> str:
        return f"python {sys.version.split()[0]}"

    def fabric(self) -> str:
        """Processes of one machine meet on loopback."""
        machine = Path("/etc/machine-id")
        name = machine.read_text("utf-8").strip() if machine.exists() else os.uname().nodename
        return f"process:{name}"

    limits_egress = False

    def overlay(self) -> None:
        """Processes have the network of their machine."""

    def connect(self, replicas: Iterable[DesiredReplica]) -> None:
        """Nothing joins them but loopback."""

    def serving_since(self) -> float:
        """There is no engine whose stop ends processes."""
        return 0.0

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        for seen in self.containers().values():
            if seen.phase is not ContainerPhase.EXITED:
                self._follow(seen.replica)

    def containers(self) -> dict[str, ContainerStatus]:
        found = ((path, _read(path / "identity.json")) for path in self.home.iterdir())
        return {path.name: self._status(path, identity) for path, identity in found if identity}

    def require_image(self, image: WantedImage) -> None:
        """Processes need none."""

    def image_needs(self, image: WantedImage) -> ImageNeeds:
        return NO_NEEDS

    def new_pull(
        self, image: WantedImage, credential: RegistryCredential | None = None
    ) -> PullRequest:
        raise PullFailure(PullCause.ENGINE_REFUSAL, "processes need no image")

    def prepare(self, replica: DesiredReplica, devices: Sequence[str]) -> None:
        home = self.home / replica.id
        if (home / "identity.json").exists():
            return
        shutil.rmtree(home, ignore_errors=True)
        make_workspace(self.workspaces, replica)
        home.mkdir()
        os.mkfifo(home / "gate", 0o600)
        (home / "log").touch()
        try:
            pid = self._server.start_parent(home)
        except OSError as error:
            raise RuntimeFailure("runtime", f"no process can be started: {error}") from error
        port = self._ports.offer(replica.id, self._offered_ports())
        write(home / "identity.json", _identity(replica, pid, port))
        self._follow(replica.id)

    def start(
        self, replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous
    ) -> None:
        home = self.home / replica.id
        if not (home / "identity.json").exists():
            raise RuntimeFailure("vanished", "its process is gone from the node")
        if (home / "go.json").exists():
            # Written before a crash, perhaps without the start signal: a second one is harmless.
            _open_gate(home)
            return
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        folders = self.workspaces.folders(replica.id)
        env |= replica_environment(replica, devices, rendezvous, folders)
        # Without a container only CUDA itself keeps a process from the other devices.
        env |= {"CUDA_VISIBLE_DEVICES": ",".join(devices)}
        grant = self.grant(replica, devices)
        env |= grant.env
        command = [*grant.wrapper, *launch_command(replica, rendezvous, folders)]
        texts = launch_files(replica, rendezvous, folders)
        write_launcher_files(self.workspaces, replica, texts)
        folder = str(start_folder(replica, folders))
        # The wrapper by itself is for terminals, whose shell gets what the command gets.
        go = {"command": command, "env": env, "cwd": folder, "wrapper": list(grant.wrapper)}
        write(home / "go.json", go)
        _open_gate(home)

    def processes(self, replica_id: str) -> list[int]:
        """Those of its session, without the child of ours that leads it, and of its terminals."""
        leader = self.leader(replica_id)
        if leader is None:
            return []
        own = [pid for pid in pids_of_session(leader) if pid != leader]
        # Of a copy: terminals begin and end in other threads.
        parents = [pid for pid, owner in self.terminals.copy().items() if owner == replica_id]
        return own + [pid for parent in parents for pid in descendants_of(parent)]

    def leader(self, replica_id: str) -> int | None:
        """The process id of its parent process, while that lives."""
        identity = _read(self.home / replica_id / "identity.json")
        return identity["pid"] if identity and _is_alive(identity) else None

    def stop(self, replica_id: str, grace_seconds: int, before_kill: BeforeKill = None) -> None:
        """Ends the whole session, with all that the command started."""
        home = self.home / replica_id
        identity = _read(home / "identity.json")
        if identity is None or not _is_alive(identity):
            return
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(identity["pid"])
            try:
                self._end(home, identity["pid"], pidfd, grace_seconds, before_kill)
            finally:
                os.close(pidfd)

    def remove(self, replica_id: str) -> None:
        shutil.rmtree(self.home / replica_id, ignore_errors=True)
        self.workspaces.remove(replica_id)

    def make_folders(self, replica: DesiredReplica) -> ReplicaFolders:
        return make_workspace(self.workspaces, replica)

    def keep(self, replicas: Collection[str]) -> None:
        self._ports.keep(replicas)
        self.workspaces.keep(replicas)

    def used_disk_bytes(self, replica_id: str, limit: int) -> int:
        return used_bytes(self.workspaces.folders(replica_id).writable, limit)

    def log(self, replica_id: str, offset: int, limit: int) -> bytes:
        path = self.home / replica_id / "log"
        # Another thread may remove it at any moment.
        with contextlib.suppress(FileNotFoundError), path.open("rb") as log:
            log.seek(offset)
            return log.read(limit)
        return b""

    def tidy(self) -> None:
        """Nothing is kept ready for later replicas."""

    def close(self) -> None:
        self._changed = lambda: None
        self._server.close()

    def _offered_ports(self) -> set[int]:
        """To the replicas that are here, by this agent or an earlier one."""
        found = (_read(path / "identity.json") for path in self.home.iterdir())
        return {int(identity["port"]) for identity in found if identity}

    def _status(self, home: Path, identity: dict[str, Any]) -> ContainerStatus:
        ended = _read(home / "exit.json")
        alive = _is_alive(identity)
        if ended is None and not alive:
            # The child may have written its exit code between the two checks.
            ended = _read(home / "exit.json") or {"exit_code": 137}
        if ended is not None:
            phase = ContainerPhase.EXITED
        else:
            phase = (
                ContainerPhase.RUNNING if (home / "go.json").exists() else ContainerPhase.CREATED
            )
        return ContainerStatus(
            phase=phase,
            exit_code=ended["exit_code"] if ended else None,
            finished_at=_written_at(home / "exit.json") if ended else None,
            address=LOOPBACK,
            container=identity["name"],
            leader=identity["pid"] if alive else None,
            **{key: identity[key] for key in IDENTITY},
        )

    def _end(
        self, home: Path, pid: int, pidfd: int, grace_seconds: int, before_kill: BeforeKill
    ) -> None:
        if not (home / "go.json").exists():
            os.killpg(pid, signal.SIGKILL)
        else:
            _open_gate(home)
            os.killpg(pid, signal.SIGTERM)
        if not _has_ended(pidfd, grace_seconds):
            if before_kill:
                before_kill()
            os.killpg(pid, signal.SIGKILL)
            _has_ended(pidfd, 10)
        if not (home / "exit.json").exists():
            # As the child does when it is not killed: the environment may hold secrets.
            write(home / "go.json", {})
            write(home / "exit.json", {"exit_code": 137})

    def _follow(self, replica_id: str) -> None:
        with self._lock:
            if replica_id in self._watched:
                return
            self._watched.add(replica_id)
        threading.Thread(target=self._wait, args=(replica_id,), daemon=True).start()

    def _wait(self, replica_id: str) -> None:
        """Wait until the child ends; a pidfd also works for the child of an earlier agent."""
        identity = _read(self.home / replica_id / "identity.json")
        if identity is not None and _is_alive(identity):
            with contextlib.suppress(ProcessLookupError):
                pidfd = os.pidfd_open(identity["pid"])
                _has_ended(pidfd, None)
                os.close(pidfd)
        with self._lock:
            self._watched.discard(replica_id)
        self._changed()


def _identity(replica: DesiredReplica, pid: int, port: int) -> dict[str, Any]:
    return {
        "replica": replica.id,
        "job": replica.job,
        "attempt": replica.attempt,
        "rank": replica.rank,
        "fence": replica.fence,
        "name": container_name(replica.job, replica.attempt, replica.rank),
        "port": port,
        "pid": pid,
        "started": _start_ticks(pid),
    }


def _open_gate(home: Path) -> None:
    gate = os.open(home / "gate", os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(gate, b"g")
    finally:
        os.close(gate)


def _has_ended(pidfd: int, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1_000))


def _is_alive(identity: dict[str, Any]) -> bool:
    """Whether it is the same process, not a later one with its pid."""
    ticks = _start_ticks(identity.get("pid", 0))
    return ticks is not None and ticks == identity.get("started")


def _start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if stat[0] in "ZX" else int(stat[19])


def _written_at(path: Path) -> float:
    """Infinite if it was never written."""
    try:
        return path.stat().st_mtime
    except OSError:
        return math.inf


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, json.JSONDecodeError):
        return None
    return found
