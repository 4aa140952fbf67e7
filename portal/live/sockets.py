"""Bells on one machine without Redis: a datagram socket per web process in one folder."""

import asyncio
import errno
import hashlib
import logging
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

# sun_path holds 108 bytes with its closing NUL (unix(7)).
MAX_PATH_BYTES = 107
NAME_LENGTH = len("4194304-0123abcd.sock")
MAX_KEY_BYTES = 256

log = logging.getLogger(__name__)


def bell_folder(var: Path) -> Path:
    """Where the sockets of the installation at `var` stand.

    A socket's path is short by nature; a deep `var` gets a private folder in the system's
    temporary one, named by what it stands for.
    """
    near = var.resolve() / "bells"
    if len(os.fsencode(near)) + 1 + NAME_LENGTH <= MAX_PATH_BYTES:
        return near
    name = hashlib.sha256(os.fsencode(near)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tessera-{os.getuid()}-{name}"


def open_socket(where: Path) -> tuple[socket.socket, Path]:
    """A socket of this process that takes rings. Raises PermissionError in a foreign folder."""
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    if where.stat().st_uid != os.getuid():
        raise PermissionError(f"{where} belongs to another user: remove it or set TESSERA_VAR")
    path = where / f"{os.getpid()}-{secrets.token_hex(4)}.sock"
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    ear.bind(str(path))
    return ear, path


def close_socket(ear: socket.socket, path: Path) -> None:
    ear.close()
    path.unlink(missing_ok=True)


async def receive_rings(ear: socket.socket, fan_out: Callable[[Iterable[str]], None]) -> None:
    """Pass rings on until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        key = await loop.sock_recv(ear, MAX_KEY_BYTES)
        fan_out([key.decode(errors="replace")])


def send_ring(where: Path, key: str, seconds: float) -> None:
    """Ring `key` at every process that listens in `where`; forget those that died."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth:
        # The kernel queues few datagrams (net.unix.max_dgram_qlen): wait a little for room.
        mouth.settimeout(seconds)
        for path in where.glob("*.sock"):
            _send(mouth, path, key)


def _send(mouth: socket.socket, path: Path, key: str) -> None:
    try:
        mouth.sendto(key.encode(), str(path))
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            path.unlink(missing_ok=True)
        elif error.errno != errno.ENOENT:
            log.warning("bell %s was not rung at %s: %s", key, path.name, error)
