"""The agent's side of the server that forks the parent processes of replicas: see child.py."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path

from agents.runtime.child import MAX_MESSAGE_BYTES

CHILD = Path(__file__).with_name("child.py")
# It answers in milliseconds. A server that does not is replaced.
ANSWER_SECONDS = 30.0


class ChildServer:
    """Started with the first parent process, and again if it was killed."""

    def __init__(self, home: Path) -> None:
        """`home`: the folder of all replicas, which the server's arguments show."""
        self._home = home
        self._channel: socket.socket | None = None
        self._end: weakref.finalize[..., ChildServer] | None = None
        self._lock = threading.Lock()

    def start_parent(self, home: Path) -> int:
        """The process id of a new parent process, which waits in this folder. Raises OSError.

        If the first answer is lost, there may be two; the one that is not recorded ends."""
        with self._lock:
            try:
                answer = self._ask(home)
            except OSError:
                self._close()
                answer = self._ask(home)
        if not answer.isdigit():
            raise OSError(answer.removeprefix(b"!").decode())
        return int(answer)

    def close(self) -> None:
        """End the server. Parents stay."""
        with self._lock:
            self._close()

    def _ask(self, home: Path) -> bytes:
        channel = self._channel or self._start()
        channel.send(os.fsencode(home))
        answer = channel.recv(MAX_MESSAGE_BYTES)
        if not answer:
            raise ConnectionResetError("the server of parent processes has ended")
        return answer

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - our own program and our own path
                [sys.executable, "-I", "-S", str(CHILD), str(self._home), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        ours.settimeout(ANSWER_SECONDS)
        self._channel, self._end = ours, weakref.finalize(self, _end, ours, process)
        return ours

    def _close(self) -> None:
        if self._end is not None:
            self._end()
        self._channel = self._end = None


def _end(channel: socket.socket, process: subprocess.Popen[bytes]) -> None:
    channel.close()
    # It ends at once: its channel has. One that was stopped by a signal must not hold up the agent.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
        return
    process.kill()
    process.wait()
