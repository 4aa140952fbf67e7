"""The small parent of one child of the demonstration. Standard library only, run by path.

`child_guard.py PARENT_PID COMMAND…`: whatever ends first (the command, us, our parent),
nothing that the command started stays behind, also not what it put into sessions of its own.
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
ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
HEARD = {*ASKED, signal.SIGCHLD}


def main(parent: int, command: list[str]) -> int:
    """The command's exit code, as a shell tells it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != parent:
        return 1  # it died before the kernel knew that we want to hear of it
    child = subprocess.Popen(command, preexec_fn=_bound_to(os.getpid()))  # noqa: S603 - ours
    code = _follow(child.pid)
    _end_orphans()
    return code if code >= 0 else 128 - code


def _follow(pid: int) -> int:
    """Pass on the first request to end; insist when STOP_SECONDS are over."""
    deadline: float | None = None
    while True:
        left = 3_600.0 if deadline is None else max(0.0, deadline - time.monotonic())
        heard = signal.sigtimedwait(HEARD, left)
        if (code := _reap(pid)) is not None:
            return code
        with contextlib.suppress(ProcessLookupError):
            if heard is not None and heard.si_signo in ASKED and deadline is None:
                os.kill(pid, signal.SIGTERM)
                deadline = time.monotonic() + STOP_SECONDS
            elif deadline is not None and time.monotonic() >= deadline:
                os.kill(pid, signal.SIGKILL)
                deadline = time.monotonic() + STOP_SECONDS


def _reap(wanted: int) -> int | None:
    """Collect everything that ended, orphans among it; the wanted one's exit code if it did."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == wanted:
                code = os.waitstatus_to_exitcode(status)
    return code


def _end_orphans() -> None:
    """Orphans come to us, and theirs after them, until there are none."""
    while pids := _children():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _children() -> list[int]:
    own = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in own.read_text("ascii").split()]


def _bound_to(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
