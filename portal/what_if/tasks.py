"""The bell of a what-if. It may take minutes, and the worker that plans must not: the replay runs
in a process of its own, at low priority."""

import subprocess
import sys

from django.conf import settings

from portal.celery import app
from portal.what_if.services import what_if_run


@app.task(name="portal.what_if.tasks.carry_out")
def run_what_if(what_if: str) -> None:
    if app.conf.task_always_eager:
        what_if_run(what_if_id=int(what_if))
        return
    start_process(what_if)


def start_process(what_if: str) -> "subprocess.Popen[bytes]":
    """A process that answers the question and ends. Nobody needs to wait for it."""
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "what_if", "--row", what_if]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - our own program and a number
