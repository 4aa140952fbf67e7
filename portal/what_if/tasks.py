"""The Celery task of a what-if. A replay may take minutes and must not block the planner's worker,
so it runs in a process of its own, at low priority."""

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
    """Start a process that runs the what-if and exits. The caller does not wait for it."""
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "what_if", "--row", what_if]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - our own program and a number
