"""The guard process between the demonstration and each of its children. Standard library only.

`child_guard.py PARENT_PID COMMAND…`: when the command, the guard or the parent ends, the guard ends
everything the command started, including processes in sessions of their own.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

STOP_SECONDS = 20.0
# From linux/prctl.h.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WATCHED_SIGNALS = {*STOP_SIGNALS, signal.SIGCHLD}


def main(parent: int, command: list[str]) -> int:
    """Run the command. Returns its exit code, as a shell reports it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != parent:
        return 1  # the parent died before PR_SET_PDEATHSIG took effect
    child = subprocess.Popen(command, preexec_fn=_die_with(os.getpid()))  # noqa: S603 - ours
    code = _follow(child.pid)
    _end_orphans()
    return code if code >= 0 else 128 - code


def _follow(pid: int) -> int:
    """Pass on the first stop signal; send SIGKILL after STOP_SECONDS. Returns the exit code."""
    deadline: float | None = None
    while True:
        left = 3_600.0 if deadline is None else max(0.0, deadline - time.monotonic())
        received = signal.sigtimedwait(WATCHED_SIGNALS, left)
        if (code := _reap(pid)) is not None:
            return code
        with contextlib.suppress(ProcessLookupError):
            if received is not None and received.si_signo in STOP_SIGNALS and deadline is None:
                os.kill(pid, signal.SIGTERM)
                deadline = time.monotonic() + STOP_SECONDS
            elif deadline is not None and time.monotonic() >= deadline:
                os.kill(pid, signal.SIGKILL)
                deadline = time.monotonic() + STOP_SECONDS


def _reap(child: int) -> int | None:
    """Reap every ended process, including orphans. Returns the child's exit code if it ended."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
    return code


def _end_orphans() -> None:
    """Kill the orphans, which the kernel reparents to us, until there are none."""
    while pids := _children():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _children() -> list[int]:
    own = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in own.read_text("ascii").split()]


def _die_with(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED_SIGNALS)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
