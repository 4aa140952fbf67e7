"""The Celery tasks of what-ifs. A replay may take minutes and must not block the planner's worker,
so it runs in a process of its own, at low priority; on one host there is one such process."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from django.conf import settings

from portal.celery import app
from portal.what_if.services import what_if_next, what_ifs_run_waiting


@app.task(name="portal.what_if.tasks.carry_out")
def run_what_if(what_if: str = "") -> None:
    """A bell. The database says which one is next; the message is not read."""
    start_waiting()


@app.task(name="portal.what_if.tasks.start_waiting")
def start_waiting() -> None:
    """Run what-ifs that wait, unless one runs. Beat repeats it, so a lost bell delays only."""
    if what_if_next() is None:
        return
    if app.conf.task_always_eager:
        what_ifs_run_waiting()
    else:
        start_process(settings.PLATFORM.var)


def start_process(var: Path) -> "subprocess.Popen[bytes] | None":
    """Start a process that runs the waiting what-ifs and exits; None if there is one.

    The caller does not wait for it. The process inherits a lock on the folder `var` and holds it
    until it ends, also if it is killed: many messages at once start one process. Nothing is written
    to the folder, which is read-only in compose.
    """
    command = [sys.executable, "-m", "portal", "what_if", "--waiting"]
    lock = os.open(var, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _has_locked(lock):
            return None
        return subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.DEVNULL, pass_fds=(lock,)
        )
    finally:
        os.close(lock)


def _has_locked(file: int) -> bool:
    """False if another process has the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
