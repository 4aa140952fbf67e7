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
    """The folder with the sockets of the installation at `var`.

    The length of a socket's path is limited; a deep `var` gets a private folder in the system's
    temporary one, named by a hash of its path.
    """
    near = var.resolve() / "bells"
    if len(os.fsencode(near)) + 1 + NAME_LENGTH <= MAX_PATH_BYTES:
        return near
    name = hashlib.sha256(os.fsencode(near)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tessera-{os.getuid()}-{name}"


def open_socket(where: Path) -> tuple[socket.socket, Path]:
    """A socket for this process. Raises PermissionError in another user's folder."""
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    if where.stat().st_uid != os.getuid():
        raise PermissionError(f"{where} belongs to another user: remove it or set TESSERA_VAR")
    path = where / f"{os.getpid()}-{secrets.token_hex(4)}.sock"
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    receiver.bind(str(path))
    return receiver, path


def close_socket(receiver: socket.socket, path: Path) -> None:
    receiver.close()
    path.unlink(missing_ok=True)


async def receive_rings(receiver: socket.socket, fan_out: Callable[[Iterable[str]], None]) -> None:
    """Receive rings until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        key = await loop.sock_recv(receiver, MAX_KEY_BYTES)
        fan_out([key.decode(errors="replace")])


def send_ring(where: Path, key: str, seconds: float) -> None:
    """Ring `key` at every process that listens in `where`; remove the sockets of dead ones."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        # The kernel queues few datagrams (net.unix.max_dgram_qlen): wait a little for room.
        sender.settimeout(seconds)
        for path in where.glob("*.sock"):
            _send(sender, path, key)


def _send(sender: socket.socket, path: Path, key: str) -> None:
    try:
        sender.sendto(key.encode(), str(path))
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            path.unlink(missing_ok=True)
        elif error.errno != errno.ENOENT:
            log.warning("bell %s was not rung at %s: %s", key, path.name, error)
