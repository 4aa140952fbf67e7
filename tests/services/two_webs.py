"""Two web processes, a job that serves at a port, and `tessera port` from this machine to it."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.environment.programs import free_port
from tests.services.cli_terminal import cli_environment
from tests.services.stack import ROOT, Stack

# `take N`: gives N MiB; `give`: the SHA-256 of what arrives until its end; `echo`: what arrives.
SERVER = """
import hashlib, socket, sys, threading

def serve(connection):
    file = connection.makefile("rwb")
    words = file.readline().split()
    if words[0] == b"take":
        for number in range(int(words[1])):
            file.write(bytes([number % 251]) * (1 << 20))
    elif words[0] == b"give":
        digest = hashlib.sha256()
        while piece := file.read(1 << 16):
            digest.update(piece)
        file.write(digest.hexdigest().encode())
    else:
        while line := file.readline():
            file.write(line)
            file.flush()
    file.flush()
    connection.close()

server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],)).start()
"""


@dataclass
class TwoWebs(Stack):
    """A second web process, which the agent does not call first."""

    second_port: int = field(default_factory=free_port)

    @property
    def second_url(self) -> str:
        return f"http://127.0.0.1:{self.second_port}"

    def start_second(self) -> None:
        self._start_web("web-b", self.second_port)


@contextmanager
def forwarded(
    url: str, token: str, job: str, port: int, folder: Path
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The local port at which `tessera port` serves, and its process."""
    words = ("port", job, str(port), "--local", "0")
    process = subprocess.Popen(
        [sys.executable, "-m", "portal.cli", *words],
        cwd=ROOT,
        env=cli_environment(url, token, folder),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    try:
        line = process.stderr.readline()
        match = re.search(r"http://127\.0\.0\.1:(\d+) here", line)
        assert match, line + (process.stderr.read() if process.poll() is not None else "")
        yield int(match[1]), process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def asks(port: int, text: bytes) -> bytes:
    """What an echo answers; empty if the connection ends."""
    with connect(port) as connection:
        try:
            connection.sendall(b"echo\n" + text)
            return connection.recv(1_000)
        except OSError:
            return b""
