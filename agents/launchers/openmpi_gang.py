#!/usr/bin/env python3
"""Open MPI in one replica of a job: a file of launcher openmpi, run there with python3.

    openmpi_gang.py run COMMAND…      rank 0: wait for every replica, run mpirun, tell them its end
    openmpi_gang.py join              other ranks: call rank 0, start what it says until the end
    openmpi_gang.py shell HOST WORDS… what mpirun calls in place of ssh, in rank 0

Only rank 0 listens, at the port where the gang meets, and only until all replicas have called: each
connection then carries the commands of mpirun for that replica. Both sides prove that they have the
key of the attempt; it is never sent. No sshd, no account and no key of a user is involved. Standard
library only, for any Python from 3.8.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

MEET_SECONDS = 600
HANDSHAKE_SECONDS = 10
RETRY_SECONDS = 0.2
END_SECONDS = 10
CHUNK = 1 << 16
HOST = "replica-"
SOCKET = "gang.sock"
SOCKET_FOLDER = "TESSERA_GANG_SOCKET_DIR"
KEY = "TESSERA_GANG_KEY"


class Wire:
    """Lines of JSON over a socket, from any thread."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lines = channel.makefile("rb")
        self._lock = threading.Lock()

    def send(self, **message: Any) -> None:
        """Raises OSError."""
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            self._channel.sendall(line)

    def receive(self) -> dict[str, Any] | None:
        """None at the end."""
        try:
            line = self._lines.readline(CHUNK * 4)
            return dict(json.loads(line)) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        self._channel.close()


def proof(key: bytes, *parts: str) -> str:
    return hmac.new(key, "\n".join(parts).encode(), hashlib.sha256).hexdigest()


def call_in(channel: socket.socket, key: bytes, rank: int) -> Wire | None:
    """The caller's side of the handshake; None if the other has another key."""
    wire, own = Wire(channel), secrets.token_hex(16)
    channel.settimeout(HANDSHAKE_SECONDS)
    hello = wire.receive() or {}
    nonce = str(hello.get("nonce", ""))
    wire.send(rank=rank, nonce=own, proof=proof(key, "join", nonce, own, str(rank)))
    answer = wire.receive() or {}
    if not hmac.compare_digest(str(answer.get("proof", "")), proof(key, "run", own, nonce)):
        return None
    channel.settimeout(None)
    return wire


def take_call(channel: socket.socket, key: bytes) -> tuple[int, Wire] | None:
    """The listener's side; None for a caller with another key."""
    wire, own = Wire(channel), secrets.token_hex(16)
    channel.settimeout(HANDSHAKE_SECONDS)
    wire.send(nonce=own)
    hello = wire.receive() or {}
    rank, nonce = hello.get("rank"), str(hello.get("nonce", ""))
    right = proof(key, "join", own, nonce, str(rank))
    if not isinstance(rank, int) or not hmac.compare_digest(str(hello.get("proof", "")), right):
        return None
    wire.send(proof=proof(key, "run", nonce, own))
    channel.settimeout(None)
    return rank, wire


class Gang:
    """Rank 0's connections to the other replicas, and what mpirun runs over them."""

    def __init__(self, world: int, key: bytes) -> None:
        self.missing = set(range(1, world))
        self._key = key
        self._wires: dict[int, Wire] = {}
        self._shells: dict[str, Wire] = {}
        self._changed = threading.Condition()
        self.lost: int | None = None

    def meet(self, port: int) -> None:
        """Until every replica has called. Then the port is free again, for the job's own use."""
        with socket.create_server(("", port), reuse_port=False) as listener:
            threading.Thread(target=self._listen, args=(listener,), daemon=True).start()
            with self._changed:
                self._changed.wait_for(lambda: not self.missing, MEET_SECONDS)
            # Wakes the thread that accepts.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        if self.missing:
            raise SystemExit(f"tessera: replicas {sorted(self.missing)} did not come")

    def run_shell(self, shell: Wire, rank: int, command: str) -> None:
        """Run it in that replica, for a program that mpirun started in place of ssh."""
        number = secrets.token_hex(8)
        wire = self._wires.get(rank)
        if wire is None:
            shell.send(exit=255)
            return
        self._shells[number] = shell
        wire.send(shell=number, command=command)
        while (message := shell.receive()) is not None:
            wire.send(shell=number, **message)

    def end(self, code: int) -> None:
        for wire in self._wires.values():
            with contextlib.suppress(OSError):
                wire.send(end=code)

    def _listen(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                channel, _ = listener.accept()
                threading.Thread(target=self._admit, args=(channel,), daemon=True).start()

    def _admit(self, channel: socket.socket) -> None:
        with contextlib.suppress(OSError):
            called = take_call(channel, self._key)
            if called is None or called[0] not in self.missing:
                channel.close()
                return
            rank, wire = called
            with self._changed:
                self._wires[rank] = wire
                self.missing.discard(rank)
                self._changed.notify_all()
            while (message := wire.receive()) is not None:
                shell = self._shells.get(str(message.pop("shell", "")))
                if shell is not None:
                    with contextlib.suppress(OSError):
                        shell.send(**message)
            self.lost = rank


def run(command: list[str]) -> int:
    """Rank 0: mpirun's exit code."""
    world = int(os.environ["TESSERA_WORLD_SIZE"])
    gang = Gang(world, read_key() if world > 1 else b"")
    if world > 1:
        gang.meet(int(os.environ["MASTER_PORT"]))
    folder = tempfile.mkdtemp(prefix="tessera-gang-")
    # A path of a socket may have 108 bytes: the folder's may be longer.
    home = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    shells = socket.socket(socket.AF_UNIX)
    shells.bind(SOCKET)
    shells.listen()
    os.fchdir(home)
    threading.Thread(target=take_shells, args=(shells, gang), daemon=True).start()
    program = subprocess.Popen(command, env={**mpirun_environment(), SOCKET_FOLDER: folder})  # noqa: S603
    signal.signal(signal.SIGTERM, lambda *_: program.send_signal(signal.SIGTERM))
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = program.wait(0.2)
            break
        if gang.lost is not None:
            sys.stderr.write(f"tessera: replica {gang.lost} has ended: ending the others\n")
            program.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(END_SECONDS)
            program.kill()
            code = program.wait() or 1
            break
    code = code if code >= 0 else 128 - code
    gang.end(code)
    os.unlink(os.path.join(folder, SOCKET))  # noqa: PTH108, PTH118 - stays small
    os.rmdir(folder)  # noqa: PTH106
    return code


def mpirun_environment() -> dict[str, str]:
    """With this file on the PATH: mpirun cannot call a program whose path has a blank."""
    own = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    return {**os.environ, "PATH": os.environ.get("PATH", os.defpath) + os.pathsep + own}


def take_shells(listener: socket.socket, gang: Gang) -> None:
    while True:
        channel, _ = listener.accept()
        threading.Thread(target=take_shell, args=(channel, gang), daemon=True).start()


def take_shell(channel: socket.socket, gang: Gang) -> None:
    shell = Wire(channel)
    wanted = shell.receive() or {}
    with contextlib.suppress(OSError, KeyError):
        gang.run_shell(shell, int(wanted["rank"]), str(wanted["command"]))


def shell(host: str, words: list[str]) -> int:
    """In place of ssh: runs the command in the replica of that name."""
    rank, command = int(host[len(HOST) :]), " ".join(words)
    if rank == int(os.environ["TESSERA_RANK"]):
        os.execv("/bin/sh", ["sh", "-c", command])  # noqa: S606
    home = os.open(".", os.O_RDONLY)
    os.chdir(os.environ[SOCKET_FOLDER])
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(SOCKET)
    os.fchdir(home)
    wire = Wire(channel)
    wire.send(rank=rank, command=command)
    threading.Thread(target=send_input, args=(wire,), daemon=True).start()
    while (message := wire.receive()) is not None:
        if "exit" in message:
            return int(message["exit"])
        os.write(int(message["to"]), base64.b64decode(message["data"]))
    return 255


def send_input(wire: Wire) -> None:
    """A newer mpirun hands its daemons a key over standard input."""
    with contextlib.suppress(OSError):
        while data := os.read(0, CHUNK):
            wire.send(data=base64.b64encode(data).decode())
        wire.send(data="")


class Shells:
    """What rank 0 has started here."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._programs: dict[str, subprocess.Popen[bytes]] = {}

    def take(self, message: dict[str, Any]) -> None:
        number = str(message["shell"])
        if "command" in message:
            self._start(number, str(message["command"]))
            return
        program, data = self._programs.get(number), base64.b64decode(message.get("data", ""))
        if program is None or program.stdin is None:
            return
        with contextlib.suppress(OSError, ValueError):
            if data:
                program.stdin.write(data)
                program.stdin.flush()
            else:
                program.stdin.close()

    def end(self) -> None:
        """mpirun ends its daemons before it ends; what is left has lost it."""
        deadline = time.monotonic() + END_SECONDS
        for program in self._programs.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(max(0.0, deadline - time.monotonic()))
            if program.poll() is None:
                program.kill()

    def _start(self, number: str, command: str) -> None:
        pipe = subprocess.PIPE
        program = subprocess.Popen(["/bin/sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603
        self._programs[number] = program
        readers = [
            threading.Thread(target=self._forward, args=(number, to, stream), daemon=True)
            for to, stream in ((1, program.stdout), (2, program.stderr))
        ]
        for reader in readers:
            reader.start()
        threading.Thread(target=self._wait, args=(number, program, readers), daemon=True).start()

    def _forward(self, number: str, to: int, stream: Any) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(stream.fileno(), CHUNK):
                self._wire.send(shell=number, to=to, data=base64.b64encode(data).decode())

    def _wait(
        self, number: str, program: subprocess.Popen[bytes], readers: list[threading.Thread]
    ) -> None:
        code = program.wait()
        for reader in readers:
            # What a daemon of it still holds open must not keep its end from being told.
            reader.join(1)
        with contextlib.suppress(OSError):
            self._wire.send(shell=number, exit=code if code >= 0 else 128 - code)


def join() -> int:
    """Other ranks: mpirun's exit code, as rank 0 tells it."""
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    rank, key = int(os.environ["TESSERA_RANK"]), read_key()
    deadline = time.monotonic() + MEET_SECONDS
    wire = None
    while wire is None:
        try:
            wire = call_in(socket.create_connection(place, HANDSHAKE_SECONDS), key, rank)
        except OSError:
            wire = None
        if wire is None and time.monotonic() > deadline:
            raise SystemExit("tessera: replica 0 does not answer")
        if wire is None:
            time.sleep(RETRY_SECONDS)
    # From here on rank 0 ends the gang: mpirun takes the signal and ends each of its processes.
    signal.signal(signal.SIGTERM, lambda *_: None)
    shells = Shells(wire)
    while (message := wire.receive()) is not None:
        if "end" in message:
            shells.end()
            return int(message["end"])
        shells.take(message)
    sys.stderr.write("tessera: the connection to replica 0 was lost\n")
    shells.end()
    return 1


def read_key() -> bytes:
    """The key that all replicas of the attempt have."""
    path = os.path.join(os.environ["TESSERA_SECRETS_DIR"], KEY)  # noqa: PTH118
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def main() -> int:
    role, *words = sys.argv[1:]
    if role == "run":
        return run(words)
    return shell(words[0], words[1:]) if role == "shell" else join()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Threads that wait for input must not hold the end up.
    os._exit(status)
