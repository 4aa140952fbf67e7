"""Watches a job from outside: a line that says where it is, until it runs or is over."""

import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import IO, Any

from portal.cli.client import Client, api_path
from portal.cli.context import CliContext
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.job_text import FINAL_STATUSES, progress_key, progress_text
from portal.cli.output import is_terminal

# A portal that holds the answer is asked again at once, nearly.
POLL_SECONDS, REPOLL_SECONDS = 2.0, 0.2
Job = Mapping[str, Any]


class StatusLine:
    """One line on stderr: rewritten on a terminal, elsewhere printed once a piece of news."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stderr
        self.rewrites = is_terminal(self.stream)
        self.told: object = None

    def show(self, text: str, news: object) -> None:
        if self.rewrites:
            width = max(20, shutil.get_terminal_size().columns - 1)
            self.stream.write(f"\r\x1b[2K{text[:width]}")
        elif news != self.told:
            self.stream.write(f"{text}\n")
        self.told = news
        self.stream.flush()

    def clear(self) -> None:
        if self.rewrites:
            self.stream.write("\r\x1b[2K")
            self.stream.flush()


def fetch_job(client: Client, label: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(api_path("jobs", label), hint="tessera ps -a")
    return found


def wait_for_job(
    tools: CliContext,
    job: dict[str, Any],
    *,
    until: Callable[[Job], bool],
    seconds: float | None = None,
) -> dict[str, Any]:
    """The job once `until` holds for it. Raises Failed(timeout) after `seconds`."""
    line, began = StatusLine(), tools.now()
    try:
        while not until(job):
            line.show(progress_text(job, tools.now()), progress_key(job))
            if seconds is not None and _since(began, tools.now()) >= seconds:
                sentence = f"{job['id']} is still {job['status']}; it goes on"
                raise CommandFailed(
                    "timeout", sentence, f"tessera why {job['id']}", ExitCode.TIMEOUT
                )
            job = _next(tools, job)
    finally:
        line.clear()
    return job


def _next(tools: CliContext, job: Job) -> dict[str, Any]:
    """The job when there is news of it, or a little later."""
    seen = job.get("last_event")
    holds = tools.long_poll_seconds if seen is not None else 0
    tools.pause(REPOLL_SECONDS if holds else POLL_SECONDS)
    found: dict[str, Any] = tools.client.get(
        api_path("jobs", str(job["id"])), wait=holds or None, since=seen if holds else None
    )
    return found


def is_over(job: Job) -> bool:
    return job["status"] in FINAL_STATUSES


def has_started(job: Job) -> bool:
    return job["status"] in FINAL_STATUSES or job["status"] in ("running", "stopping")


def _since(began: datetime, now: datetime) -> float:
    return (now - began).total_seconds()
