"""SSH into this node's replicas: each stream has a server of its own, which ends with it."""

import asyncio
import logging
import re
from asyncio import FIRST_COMPLETED
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from agents.contract.ssh import (
    LOGIN_PATTERN,
    MAX_GREETING_BYTES,
    SshGreeting,
    SshTarget,
    write_greeting,
)
from agents.contract.tunnel import StreamRefusal
from agents.runtime.ssh_server import SSHD_MISSING_CODES, SshServer
from agents.terminals.replica_terminals import OpenSsh
from agents.tunnel.link import IncomingStream, OpenRefused
from agents.tunnel.opening import open_or_refuse
from agents.tunnel.splice import copy_stream

# Of one replica, and of the node.
MAX_OF_REPLICA, MAX_OF_NODE = 8, 64
# Servers that are started at once.
OPEN_THREADS = 4
# From the server's start to its first bytes. A replica that may use little of a processor is slow.
BEGIN_SECONDS = 9.0
# How long a client may take to end its own side after its server has ended.
LAST_SECONDS = 5.0
# What every SSH server says first (RFC 4253, 4.2).
SSH = b"SSH-"

log = logging.getLogger("agents.ssh")


class BusyStream:
    """A server's bytes, and when the last of them passed."""

    def __init__(self, server: SshServer, first: bytes) -> None:
        """`first`: what it has sent already."""
        self._server = server
        self._first = first
        self.busy_at = asyncio.get_running_loop().time()

    async def read(self) -> bytes:
        data, self._first = self._first, b""
        data = data or await self._server.read()
        self._busy()
        return data

    async def write(self, data: bytes) -> None:
        await self._server.write(data)
        self._busy()

    async def end(self) -> None:
        await self._server.end()

    def abort(self) -> None:
        """The server is closed when the stream has ended."""

    def _busy(self) -> None:
        self.busy_at = asyncio.get_running_loop().time()


class NodeSsh:
    """Used on one event loop."""

    def __init__(self, open_ssh: OpenSsh) -> None:
        self._open_ssh = open_ssh
        # By attempt and rank, until their servers are gone.
        self._open: Counter[tuple[int, int]] = Counter()
        self._running: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(OPEN_THREADS, thread_name_prefix="ssh")

    async def serve(self, incoming: IncomingStream, target: SshTarget) -> None:
        """One connection, until it ends."""
        place = (target.attempt, target.rank)
        if self._open[place] >= MAX_OF_REPLICA or self._open.total() >= MAX_OF_NODE:
            incoming.refuse(StreamRefusal.TOO_MANY_STREAMS)
            return
        # Of its own: a tunnel that is cut is dialed again before the last server has ended.
        running = asyncio.ensure_future(self._run(incoming, target))
        self._open[place] += 1
        self._running.add(running)
        running.add_done_callback(lambda task: self._let_go(task, place))
        await asyncio.shield(running)

    async def close(self) -> None:
        """End all of them."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _let_go(self, task: asyncio.Task[None], place: tuple[int, int]) -> None:
        self._running.discard(task)
        self._open -= Counter([place])
        if not task.cancelled() and (error := task.exception()):
            log.warning("ssh_left", extra={"why": str(error)})

    async def _run(self, incoming: IncomingStream, target: SshTarget) -> None:
        """From the opening to the end."""
        server = await open_or_refuse(incoming, self._opened(target), log, "ssh_failed")
        if server is None:
            return
        try:
            await _converse(incoming, server, target.idle_seconds)
        finally:
            await _closed(server)

    async def _opened(self, target: SshTarget) -> SshServer:
        """Raises OpenRefused, and what opening raises."""
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(self._threads, self._open_ssh, target)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The agent stops.
            with suppress(Exception):
                await (await opening).close()
            raise


async def _converse(incoming: IncomingStream, server: SshServer, idle_seconds: float) -> None:
    try:
        async with asyncio.timeout(BEGIN_SECONDS):
            greeting, first = await _begun(server)
    except TimeoutError:
        incoming.refuse(StreamRefusal.TIMED_OUT)
    except OpenRefused as refused:
        incoming.refuse(refused.why)
    else:
        incoming.accept()
        # The stream may be cut at any moment.
        with suppress(OSError):
            await incoming.write(write_greeting(greeting))
            await _carry(incoming, BusyStream(server, first), idle_seconds)


async def _begun(server: SshServer) -> tuple[SshGreeting, bytes]:
    """Give it a key, and wait until it speaks: what to tell its client, and the first bytes of SSH.
    Raises OpenRefused."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    await server.write(private + b"\n")
    said = b""
    while SSH not in said:
        data = await server.read()
        said += data
        if not data or len(said) > MAX_GREETING_BYTES:
            raise await _refused(server)
    login, _, first = said.partition(b"\n")
    if not first.startswith(SSH):
        raise await _refused(server)
    return _greeting(login.decode("ascii", "replace"), public.decode("ascii")), first


def _greeting(login: str, public: str) -> SshGreeting:
    """Raises OpenRefused."""
    if not re.fullmatch(LOGIN_PATTERN, login):
        log.warning("ssh_failed", extra={"why": f"its user is {login!r}"})
        raise OpenRefused(StreamRefusal.FAILED)
    return SshGreeting(login=login, host_key=public.split()[1])


async def _refused(server: SshServer) -> OpenRefused:
    """Of a server that has not begun."""
    code, why = await server.failure()
    if code in SSHD_MISSING_CODES:
        return OpenRefused(StreamRefusal.SSHD_MISSING)
    log.warning("ssh_failed", extra={"why": why.strip(), "exit_code": code})
    return OpenRefused(StreamRefusal.FAILED)


async def _carry(incoming: IncomingStream, server: BusyStream, idle_seconds: float) -> None:
    """Until the server has ended, the stream is cut, or nothing passes for the idle time. Raises
    OSError if it is cut."""
    loop = asyncio.get_running_loop()
    sending = asyncio.ensure_future(copy_stream(server, incoming))
    taking = asyncio.ensure_future(copy_stream(incoming, server))
    try:
        while not sending.done() and (left := server.busy_at + idle_seconds - loop.time()) > 0:
            waiting = {sending} if taking.done() else {sending, taking}
            done, _ = await asyncio.wait(waiting, timeout=left, return_when=FIRST_COMPLETED)
            for task in done:
                task.result()
        if sending.done():
            # Its client was sent the end, and ends its own side.
            await asyncio.wait({taking}, timeout=LAST_SECONDS)
    finally:
        for task in (sending, taking):
            task.cancel()
        await asyncio.gather(sending, taking, return_exceptions=True)
        # No effect on one that both sides have ended.
        incoming.abort()


async def _closed(server: SshServer) -> None:
    """To its end, also where the agent stops meanwhile."""
    closing = asyncio.ensure_future(server.close())
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await closing
        raise
