"""A shell in a replica, as both runtimes give it: a descriptor that is read and written."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

READ_BYTES = 32 << 10

T = TypeVar("T")
# Of their own: an engine that does not answer keeps no log and no file waiting.
_threads = ThreadPoolExecutor(8, thread_name_prefix="terminal-calls")


class ShellMissing(Exception):
    """The replica has no such program."""


class ReplicaTerminal(Protocol):
    """A shell with a screen, and what it started."""

    async def read(self) -> bytes:
        """What it printed next; b"" once it has ended."""

    async def write(self, data: bytes) -> None:
        """Type this. Returns once it has been taken; no effect once the shell has ended."""

    async def resize(self, columns: int, rows: int) -> None:
        """Tell its programs the size of the screen; no effect once the shell has ended."""

    async def exit_code(self) -> int:
        """From 0 to 255, once it has ended."""

    async def close(self) -> None:
        """End it, with all that it started."""


class TerminalDescriptor:
    """A descriptor that does not block, on the running loop: a pseudoterminal or a socket."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor

    async def read(self) -> bytes:
        """b"" at the end, however it came: the master of a pseudoterminal that nobody has open any
        more fails with EIO."""
        while True:
            try:
                return os.read(self.descriptor, READ_BYTES)
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _ready(self.descriptor, loop.add_reader, loop.remove_reader)
            except OSError:
                return b""

    async def write(self, data: bytes) -> None:
        """No effect after the end."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self.descriptor, left) :]
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _ready(self.descriptor, loop.add_writer, loop.remove_writer)
            except OSError:
                return


async def in_terminal_thread(call: Callable[..., T], *args: object) -> T:
    """For calls that wait for an engine or a process."""
    return await asyncio.get_running_loop().run_in_executor(_threads, call, *args)


async def _ready(descriptor: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)
