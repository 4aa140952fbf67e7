"""Machines on one network: each a process in namespaces of its own, with an address, names, files
below `/etc` and, if wanted, a clock that is wrong.

The switch between them is a namespace as well, so nothing of it is left on this machine, nor seen
by its other programs. It needs CAP_SYS_ADMIN.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.environment import debian
from tests.environment.levels import skip_without
from tests.environment.programs import Program, temporary_home

# None: that of this process.
Environ = Mapping[str, str] | None
NETWORK = "10.77.0"
CLONE_NEWNET = 0x40000000
# Files below /etc may be written, and folders that services write to are empty; all vanish with it.
SETUP = """
set -e
ip link set lo up
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" overlay /etc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
touch "$2"
exec sleep infinity
"""
NAMESPACES = ("unshare", "--net", "--mount", "--uts", "--propagation", "private")


@contextlib.contextmanager
def inside_network(pid: int) -> Iterator[None]:
    """Sockets and programs of this thread in the block are in the network of that process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as before, open(f"/proc/{pid}/ns/net") as own:  # noqa: PTH123
        assert libc.setns(own.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0


class Machine:
    """One of them. Programs end with it."""

    def __init__(self, name: str, address: str, home: Path) -> None:
        self.name = name
        self.address = address
        self.home = home
        self._clock: dict[str, str] = {}
        home.mkdir()
        (home / "etc").mkdir()
        script = ["sh", "-c", SETUP, "sh", str(home / "etc"), str(home / "up")]
        self._holder = Program([*NAMESPACES, *script], log=home / "machine.log", environ=os.environ)
        self._holder.wait_ready((home / "up").exists)
        # `sleep` ends with this process, but its children need not.
        self._programs: list[Program] = []
        self.run("hostname", name)

    @property
    def pid(self) -> int:
        return self._holder.process.pid

    def set_clock(self, seconds: int) -> None:
        """Programs that start from now on see the time wrong by so much; durations stay right."""
        path = debian.FAKETIME.path()
        assert path
        self._clock = {
            "LD_PRELOAD": path,
            "FAKETIME": f"{seconds:+d}s",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def command(self, words: Sequence[str], folder: Path | None = None) -> list[str]:
        """`words`, run on this machine."""
        enter = ("nsenter", "--target", str(self.pid), "--net", "--mount", "--uts")
        return [*enter, "env", "--chdir", str(folder or self.home), *words]

    def run(
        self, *words: str, environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> str:
        """What the program prints. Raises AssertionError with its last words if it fails."""
        done = subprocess.run(
            self.command(words, folder),
            env=dict(environ or os.environ) | self._clock,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{self.name}: {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(
        self,
        name: str,
        *words: str,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Program:
        """`name`: of its log."""
        program = Program(
            self.command(words, folder),
            log=self.home / f"{name}.log",
            environ=dict(environ or os.environ) | self._clock,
        )
        self._programs.append(program)
        return program

    def write(self, path: str, text: str, *, owner: str = "root", mode: int = 0o644) -> None:
        """A file below /etc, or in another folder that is this machine's own."""
        source = self.home / "written"
        source.write_text(text)
        numbers = ("--owner", owner, "--mode", f"{mode:o}")
        self.run("install", "-D", *numbers, str(source), path)
        source.unlink()

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """Sockets that this thread makes in the block are this machine's."""
        with inside_network(self.pid):
            yield

    def stop(self) -> None:
        for program in reversed(self._programs):
            program.kill()
        self._holder.kill()


class Machines:
    """They reach each other by name."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._all: dict[str, Machine] = {}
        self._aliases: dict[str, str] = {}
        self._switch = Machine("switch", "", home / "switch")
        self._on_switch("link", "add", "bridge", "type", "bridge")
        self._on_switch("link", "set", "bridge", "up")

    def __getitem__(self, name: str) -> Machine:
        return self._all[name]

    def add(self, *names: str) -> None:
        for name in names:
            number = len(self._all) + 10
            machine = Machine(name, f"{NETWORK}.{number}", self.home / name)
            self._all[name] = machine
            port = self._port(name)
            other = ("name", "eth0", "netns", str(machine.pid))
            self._on_switch("link", "add", port, "type", "veth", "peer", *other)
            self._on_switch("link", "set", port, "master", "bridge", "up")
            machine.run("ip", "address", "add", f"{machine.address}/24", "dev", "eth0")
            machine.run("ip", "link", "set", "eth0", "up")
        self._write_names()

    def cut(self, name: str) -> None:
        """Pull the plug of its network."""
        self._on_switch("link", "set", self._port(name), "down")

    def join(self, name: str) -> None:
        """Put the plug back."""
        self._on_switch("link", "set", self._port(name), "up")

    def stop(self) -> None:
        for machine in reversed(self._all.values()):
            machine.stop()
        self._switch.stop()

    def alias(self, name: str, other: str) -> None:
        """Another name of a machine, such as the portal's public one."""
        self._aliases[other] = name
        self._write_names()

    def _write_names(self) -> None:
        names = {machine.name: machine.address for machine in self._all.values()}
        names |= {other: names[name] for other, name in self._aliases.items()}
        lines = "".join(f"{address} {name}\n" for name, address in names.items())
        for machine in self._all.values():
            machine.write("/etc/hosts", f"127.0.0.1 localhost\n{lines}")

    def _port(self, name: str) -> str:
        return f"to-{name}"

    def _on_switch(self, *words: str) -> None:
        self._switch.run("ip", *words)


@contextlib.contextmanager
def running_machines() -> Iterator[Machines]:
    """For as long as the block runs; for programs that are not tests too."""
    with temporary_home("machines") as home, contextlib.ExitStack() as stack:
        machines = Machines(home)
        stack.callback(machines.stop)
        yield machines


@pytest.fixture
def machines() -> Iterator[Machines]:
    for tool in (debian.IP, debian.FAKETIME):
        skip_without(tool)
    if not debian.may_start_containers():
        pytest.skip("this process may not make namespaces (no CAP_SYS_ADMIN)")
    with running_machines() as found:
        yield found
