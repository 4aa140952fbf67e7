"""A Docker Engine: the machine's own if it answers, else one that the tests start.

The tests' engine keeps bridges, firewall rules and mounts in private network and mount namespaces,
so none of them is left on the machine. Host programs reach no container port by address.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.errors import APIError, DockerException, NotFound

from docs.examples.build_image import IMAGE, build_image
from tests.environment import debian
from tests.environment.levels import skip_without
from tests.environment.programs import Program, end, temporary_home

# dockerd offers the nvidia device driver when it finds this program; runc then calls it as a hook.
GPU_HOOK = "nvidia-container-runtime-hook"
NAMESPACES = ("unshare", "--net", "--mount", "--propagation", "slave")
LOOPBACK_THEN = ("sh", "-c", 'ip link set lo up && exec "$@"', "sh")
# Fixed, not negotiated: the SDK leaks a socket when negotiating fails.
OLDEST_API = "1.41"
DEFAULT_SOCKET = "unix:///var/run/docker.sock"


class DockerEngine:
    """The tests' engine. `stop` removes its containers, its processes and its folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.base_url = f"unix://{home}/docker.sock"
        self._program: Program | None = None

    def start(self) -> None:
        self._make_gpu_hook()
        log = self.home / "dockerd.log"
        self._program = Program(self._command(), log=log, environ=self._environ())
        self._program.wait_ready(lambda: answers(self.base_url))

    def stop(self) -> None:
        try:
            if answers(self.base_url):
                remove_containers(self.base_url)
        finally:
            if self._program:
                self._program.stop()
            end(strays(self.home))
            remove_cgroups(self.home.name)

    def _command(self) -> list[str]:
        dockerd = debian.DOCKERD.path()
        assert dockerd
        folders = ("--data-root", f"{self.home}/data", "--exec-root", f"{self.home}/exec")
        groups = ("--cgroup-parent", f"/{self.home.name}")
        files = ("--host", self.base_url, "--pidfile", f"{self.home}/docker.pid")
        return [*NAMESPACES, *LOOPBACK_THEN, dockerd, *folders, *groups, *files]

    def _environ(self) -> dict[str, str]:
        path = f"{self.home}/bin:{os.environ['PATH']}:/usr/sbin:/sbin"
        return os.environ | {"PATH": path}

    def _make_gpu_hook(self) -> None:
        hook = self.home / "bin" / GPU_HOOK
        hook.parent.mkdir()
        hook.write_text("#!/bin/sh\nexit 0\n")
        hook.chmod(0o755)


@contextlib.contextmanager
def engine_client(base_url: str) -> Iterator[docker.DockerClient]:
    """A client of a test, closed with its block."""
    client = docker.DockerClient(base_url=base_url, version=OLDEST_API)
    try:
        yield client
    finally:
        client.close()


def answers(base_url: str) -> bool:
    """Whether an engine is there and talks to us."""
    if base_url.startswith("unix://") and not accepts(base_url.removeprefix("unix://")):
        return False
    client = docker.DockerClient(base_url=base_url, version=OLDEST_API, timeout=10)
    try:
        return bool(client.ping())
    except (DockerException, OSError):
        return False
    finally:
        client.close()


def accepts(path: str) -> bool:
    """The SDK leaks a socket that is refused, so we knock first."""
    with socket.socket(socket.AF_UNIX) as knocking:
        return knocking.connect_ex(path) == 0


def remove_containers(base_url: str) -> None:
    """Force-remove every container of an engine that is ours alone."""
    client = docker.DockerClient(base_url=base_url, timeout=30)
    try:
        for container in client.containers.list(all=True, ignore_removed=True):
            try:
                container.remove(force=True)
            except (NotFound, APIError):
                continue
    finally:
        client.close()


def strays(home: Path) -> list[int]:
    """Processes that name the engine's own folder: a containerd or a shim that outlived it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        if str(home).encode() in words and int(entry.parent.name) != os.getpid():
            found.append(int(entry.parent.name))
    return found


def remove_cgroups(name: str) -> None:
    """The groups of our containers, empty by now: one per hierarchy (v1), or one in all (v2)."""
    roots = (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*"))
    for group in (root / name for root in roots if (root / name).is_dir()):
        for folder in sorted((x for x in group.rglob("*") if x.is_dir()), reverse=True):
            folder.rmdir()
        group.rmdir()


def standing_engine() -> str | None:
    """The base URL of an engine that the machine already runs."""
    base_url = os.environ.get("DOCKER_HOST", DEFAULT_SOCKET)
    return base_url if answers(base_url) else None


@contextlib.contextmanager
def running_engine() -> Iterator[str]:
    """The base URL of an engine while the block runs; for programs that are not tests too."""
    standing = standing_engine()
    if standing:
        yield standing
        return
    with temporary_home("docker") as home, contextlib.ExitStack() as stack:
        engine = DockerEngine(home)
        stack.callback(engine.stop)
        engine.start()
        yield engine.base_url


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[str]:
    """The base URL of an engine, for docker.DockerClient(base_url=…)."""
    if standing_engine() is None:
        skip_without(debian.DOCKERD)
        reason = debian.why_not("docker")
        if reason:
            pytest.skip(reason)
    with running_engine() as base_url:
        yield base_url


@pytest.fixture(scope="session")
def docker_image(docker_engine: str) -> str:
    """The example image's name, present in the engine."""
    build_image(docker_engine)
    return IMAGE
