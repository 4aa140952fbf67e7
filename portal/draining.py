"""The end of a web process, in an order that loses no request and no bell.

1. `/readyz` answers 503, and all else is served as before: a proxy that asks it sends no more.
2. The kernel drops new connections. Those that are being made complete, and their requests arrive.
   A proxy whose connection is not made tries another process; it has sent nothing yet, so that is
   safe for any request.
3. Calls of apps that are open have some seconds to end: the server would cut them, with the tunnels
   through which they go. New ones on connections that were kept are told to come again.
4. The server closes its sockets. Streams and held calls end, and come back elsewhere at once: a
   proxy is refused here, where it would wait before. The server completes what else is open, and
   ends.

A process without the first step is the only one (`TESSERA_DRAIN_SECONDS`): there the third comes
before the second, as nobody else would serve pages meanwhile.

A server that closes its socket first resets the connections that nobody has accepted yet, with
requests in them.
"""

import asyncio
import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from portal.live.listener import Listener

Handler = Callable[[int, FrameType | None], Any]

# Much longer than a handshake takes, and a request that follows it at once.
LAST_REQUESTS_SECONDS = 0.5
# A server looks ten times a second whether it is to end.
CLOSING_SECONDS = 3.0
LOOK_SECONDS = 0.02
SO_ATTACH_FILTER = 26
# Classic BPF over the TCP header: 0 drops the segment if of SYN and ACK only SYN is set. The
# flags are its byte 13. (<linux/filter.h>, socket(7); RFC 9293, 3.1)
DROP_NEW_CONNECTIONS = (
    (0x30, 0, 0, 13),  # load the byte
    (0x54, 0, 0, 0x12),  # keep SYN (0x02) and ACK (0x10)
    (0x15, 0, 1, 0x02),  # only SYN? else skip one
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # keep all of it
)

log = logging.getLogger(__name__)


class Drain:
    """The steps, begun by SIGTERM. A second signal, or SIGINT, goes to the last one."""

    def __init__(
        self, ear: Listener, seconds: float, finish_calls: Callable[[], Awaitable[None]]
    ) -> None:
        """`seconds`: how long the first step takes, longer than a proxy needs to notice; 0 where no
        other process serves. `finish_calls` returns, soon in any case, when the calls of apps are
        over."""
        self._ear = ear
        self._finish_calls = finish_calls
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self.is_begun = False

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Put the steps before the server's own handling of signals.

        The server sends "lifespan.shutdown" only after the last open request has ended, and
        streams would stay open.
        """
        chained: dict[signal.Signals, Handler] = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)
            # A handler can be set in the main thread only.
            if callable(before) and threading.current_thread() is threading.main_thread():
                signal.signal(number, self._handler(before))
                chained[number] = before
        try:
            yield
        finally:
            for number, before in chained.items():
                signal.signal(number, before)

    def _handler(self, before: Handler) -> Handler:
        def handle(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGTERM and not self.is_begun:
                self.is_begun = True
                self._loop.call_soon_threadsafe(self._begin, lambda: before(number, None))
                return
            self.is_begun = True
            self._ear.drain_soon()
            before(number, frame)

        return handle

    def _begin(self, end: Callable[[], None]) -> None:
        self._task = self._loop.create_task(self._steps(end))

    async def _steps(self, end: Callable[[], None]) -> None:
        try:
            if self._seconds:
                await asyncio.sleep(self._seconds)
                await _close_door()
                await self._finish_calls()
            else:
                await self._finish_calls()
                await _close_door()
        finally:
            end()
            try:
                await _until_no_socket_listens()
            finally:
                self._ear.drain()


async def _close_door() -> None:
    if own_listeners_close_door():
        await asyncio.sleep(LAST_REQUESTS_SECONDS)


async def _until_no_socket_listens() -> None:
    """Returns after CLOSING_SECONDS in any case: the sockets may be another process's."""
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSING_SECONDS):
            while _has_listening_socket():
                await asyncio.sleep(LOOK_SECONDS)


def _has_listening_socket() -> bool:
    found = False
    for listening in _listening_sockets():
        # A duplicate that stays open would keep the socket open.
        listening.close()
        found = True
    return found


def own_listeners_close_door() -> bool:
    """Let no new connection be made to the sockets on which this process listens. Returns False
    where it cannot be done: the sockets belong to others as well, or the system has no filters."""
    # A socket that systemd or a parent process keeps would stay closed for the next process.
    if "LISTEN_FDS" in os.environ or multiprocessing.parent_process():
        return False
    try:
        for listening in _listening_sockets():
            with listening:
                _drop_new_connections(listening)
    except OSError as error:
        log.warning("requests that arrive at this moment may be lost: %s", error)
        return False
    return True


def _listening_sockets() -> Iterator[socket.socket]:
    """Duplicates of this process's TCP sockets that accept connections; the caller closes them.

    No file is duplicated: to close any of its descriptors would give up all locks that the process
    has on it (fcntl(2)), those of SQLite, too.
    """
    for entry in list(Path("/proc/self/fd").iterdir()):
        try:
            if not entry.is_socket():
                continue
            descriptor = os.dup(int(entry.name))
        except OSError:
            # The folder itself, which was open while it was read.
            continue
        try:
            found = socket.socket(fileno=descriptor)
        except OSError:
            os.close(descriptor)
            continue
        if _is_listening(found):
            yield found
        else:
            found.close()


def _is_listening(found: socket.socket) -> bool:
    is_tcp = found.family in (socket.AF_INET, socket.AF_INET6)
    with suppress(OSError):
        return is_tcp and bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    return False


def _drop_new_connections(listening: socket.socket) -> None:
    code = b"".join(struct.pack("HBBI", *step) for step in DROP_NEW_CONNECTIONS)
    kept = ctypes.create_string_buffer(code)
    program = struct.pack("HP", len(DROP_NEW_CONNECTIONS), ctypes.addressof(kept))
    listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
