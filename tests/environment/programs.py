"""A child program: started with its own log, awaited until it answers, stopped by its pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import SystemRandom

STOP_SECONDS = 20
# A program that ends is noticed at once; one that is slow has a busy machine.
START_SECONDS = 300
LOG_LINES = 15
# The kernel sends the signal when the process that started it dies, however it dies.
DIES_WITH_US = ("setpriv", "--pdeathsig", "TERM")
# Below those of connections: by default 32,768 to 60,999.
SERVER_PORTS = range(20_000, 32_000)
PORT_TRIES = 10_000
# By name, in no file system: they end with this process, however it ends.
_reservations: list[socket.socket] = []


class NotReady(RuntimeError):
    """The program ended, or did not answer in time; the message ends with its last words."""


class Program:
    """A running child. It ends with `stop`, with `kill`, or when this process dies.

    Start it in the main thread: to the kernel, the thread that started it is its parent.
    """

    def __init__(self, command: Sequence[str], *, log: Path, environ: Mapping[str, str]) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("start programs in the main thread: they die with another one")
        self.log = log
        self.name = Path(command[0]).name
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [*DIES_WITH_US, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                cwd=log.parent,
            )

    def wait_ready(self, answers: Callable[[], bool], *, seconds: float = START_SECONDS) -> None:
        """Return once it answers. Raises NotReady if it ends first or does not answer in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise NotReady(f"{self.name} ended at once:\n{self.last_words()}")
            if answers():
                return
            time.sleep(0.05)
        raise NotReady(f"{self.name} did not answer in {seconds:.0f} s:\n{self.last_words()}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Send the signal; after 20 s, kill it."""
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it and its children as a power cut would, and return when none of them runs."""
        end([self.process.pid, *children(self.process.pid)])
        self.process.wait()

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])


@contextlib.contextmanager
def temporary_home(kind: str) -> Iterator[Path]:
    """A folder for one server; also removes those that a killed test run left behind.

    Not pytest's: that one is closed to other users, and a socket's path has at most 107 characters.
    """
    prefix = f"tessera-{kind}-"
    for left in Path("/tmp").glob(f"{prefix}*-*"):
        owner = left.name.removeprefix(prefix).partition("-")[0]
        if owner.isdecimal() and not runs(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    home = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir="/tmp"))
    try:
        yield home
    finally:
        shutil.rmtree(home)


def children(pid: int) -> list[int]:
    """The pids of its direct children; none if it is gone."""
    try:
        return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def runs(pid: int) -> bool:
    """Whether the process is there and more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def free_port() -> int:
    """A loopback TCP port for this process alone, and for as long as it lives: no other one that
    asks here is given it, and the kernel takes none of these for a connection, also while a server
    that was killed has not been started again."""
    for _ in range(PORT_TRIES):
        port = SystemRandom().choice(SERVER_PORTS)
        reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if _binds(reservation, f"\0tessera-port-{port}"):
            with socket.socket() as listener:
                if _binds(listener, ("127.0.0.1", port)):
                    _reservations.append(reservation)
                    return port
        reservation.close()
    raise RuntimeError("no port is free")


def _binds(listener: socket.socket, address: str | tuple[str, int]) -> bool:
    try:
        listener.bind(address)
    except OSError:
        return False
    return True


def end(pids: list[int]) -> None:
    """Kill these, and return when none of them runs."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while any(map(runs, pids)):
        time.sleep(0.01)
