"""What /proc tells of running processes."""

import contextlib
import os
import signal
from pathlib import Path

PROC = Path("/proc")
# "SigCgt: 0000000180004a07" in /proc/PID/status, a bit for each signal that has a handler.
HANDLED = "SigCgt:"


def pids_of_session(session: int) -> list[int]:
    """Every process of this session, its leader included."""
    found = []
    for path in PROC.iterdir():
        with contextlib.suppress(OSError, ValueError):
            if os.getsid(pid := int(path.name)) == session:
                found.append(pid)
    return found


def descendants_of(ancestor: int) -> list[int]:
    """Every process that comes from this one, without itself. One whose parent has ended belongs to
    whoever adopted it."""
    parents = {}
    for path in PROC.iterdir():
        with contextlib.suppress(OSError, ValueError):
            stat = (path / "stat").read_text("utf-8", "replace")
            parents[int(path.name)] = int(stat.rpartition(")")[2].split()[1])
    family = {ancestor}
    while children := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= children
    return sorted(family - {ancestor})


def handles_sigterm(pid: int) -> bool:
    """Whether it has a handler for SIGTERM; False if it has ended."""
    with contextlib.suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text("utf-8", "replace").splitlines():
            if line.startswith(HANDLED):
                return bool(int(line.removeprefix(HANDLED), 16) >> (signal.SIGTERM - 1) & 1)
    return False
