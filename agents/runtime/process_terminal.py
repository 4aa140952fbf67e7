"""Terminals in plain processes: a pseudoterminal, and a parent that outlives nothing of it."""

import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

from agents.runtime.process import ProcessRuntime
from agents.runtime.terminal import ShellMissing, TerminalDescriptor, in_terminal_thread
from agents.runtime.terminal_child import MISSING, STARTED

CHILD = Path(__file__).with_name("terminal_child.py")
# A shell starts in milliseconds, and ends within the grace period of its parent.
ANSWER_SECONDS = 15.0


class ProcessTerminal(TerminalDescriptor):
    """The master of a pseudoterminal, and the parent process of the shell at its other end."""

    def __init__(
        self,
        runtime: ProcessRuntime,
        replica_id: str,
        master: int,
        channel: socket.socket,
        parent: subprocess.Popen[bytes],
    ) -> None:
        super().__init__(master)
        self._runtime = runtime
        self._channel = channel
        self._parent = parent
        self._is_closed = False
        runtime.terminals[parent.pid] = replica_id

    async def resize(self, columns: int, rows: int) -> None:
        if not self._is_closed:
            _set_size(self.descriptor, columns, rows)

    async def exit_code(self) -> int:
        return await in_terminal_thread(read_exit_code, self._channel)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._channel.close()
            await in_terminal_thread(self._parent.wait)
            os.close(self.descriptor)
            del self._runtime.terminals[self._parent.pid]


def open_process_terminal(
    runtime: ProcessRuntime, replica_id: str, program: str, columns: int, rows: int
) -> ProcessTerminal:
    """`program`: an absolute path; empty: the usual shell. Raises ShellMissing, and OSError, also
    if the replica has ended."""
    master, slave = os.openpty()
    is_begun = False
    try:
        _set_size(slave, columns, rows)
        channel, parent = start_beside(runtime, replica_id, [program], slave, slave)
        is_begun = True
    finally:
        os.close(slave)
        if not is_begun:
            os.close(master)
    return ProcessTerminal(runtime, replica_id, master, channel, parent)


def start_beside(
    runtime: ProcessRuntime,
    replica_id: str,
    words: Sequence[str],
    stdin: int,
    stdout: int,
    stderr: int = subprocess.DEVNULL,
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a program as the replica's own command runs: its channel and its parent process, which
    ends with the channel. `words`: the program, and its arguments if it has no screen. Raises
    ShellMissing, and OSError, also if the replica has ended."""
    leader = runtime.leader(replica_id)
    if leader is None:
        raise ProcessLookupError
    pidfd, (ours, theirs) = -1, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    is_begun = False
    try:
        pidfd = os.pidfd_open(leader)
        if runtime.leader(replica_id) != leader:
            raise ProcessLookupError
        home = str((runtime.home / replica_id).absolute())
        channel, watched = theirs.fileno(), pidfd
        parent = subprocess.Popen(  # noqa: S603 - our own program; the other words are its arguments
            [sys.executable, "-I", "-S", str(CHILD), str(channel), str(watched), home, *words],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env={},
            start_new_session=True,
            pass_fds=[channel, watched],
        )
        theirs.close()
        ours.settimeout(ANSWER_SECONDS)
        try:
            _require_started(ours)
            is_begun = True
        finally:
            if not is_begun:
                ours.close()
                parent.wait()
    finally:
        theirs.close()
        if pidfd >= 0:
            os.close(pidfd)
        if not is_begun:
            ours.close()
    return ours, parent


def read_exit_code(channel: socket.socket) -> int:
    """From 0 to 255, of a program that `start_beside` has started, once it has ended."""
    with contextlib.suppress(OSError, ValueError):
        return int(channel.recv(16)) & 0xFF
    return 1


def _require_started(channel: socket.socket) -> None:
    answer = channel.recv(16)
    if answer == MISSING:
        raise ShellMissing
    if answer != STARTED:
        raise OSError("the parent process of the terminal has ended")


def _set_size(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
