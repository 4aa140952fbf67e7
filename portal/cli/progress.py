"""Follows a job with a progress line until it runs or has ended."""

import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import IO, Any

from portal.cli.client import Client, api_path
from portal.cli.context import CliContext
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.job_text import FINAL_STATUSES, STARTING, progress_key, progress_text
from portal.cli.output import is_terminal

# Seconds between polls, and after a long poll; of a long poll while an image may be pulled.
POLL_SECONDS, REPOLL_SECONDS = 2.0, 0.2
PULL_POLL_SECONDS = 2
Job = Mapping[str, Any]


class StatusLine:
    """A line on stderr: rewritten on a terminal, printed to a file whenever `key` changes."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stderr
        self.rewrites = is_terminal(self.stream)
        self.last_key: object = None

    def show(self, text: str, key: object) -> None:
        if self.rewrites:
            width = max(20, shutil.get_terminal_size().columns - 1)
            self.stream.write(f"\r\x1b[2K{text[:width]}")
        elif key != self.last_key:
            self.stream.write(f"{text}\n")
        self.last_key = key
        self.stream.flush()

    def clear(self) -> None:
        if self.rewrites:
            self.stream.write("\r\x1b[2K")
            self.stream.flush()


def fetch_job(client: Client, label: str) -> dict[str, Any]:
    row: dict[str, Any] = client.get(api_path("jobs", label), hint="tessera ps -a")
    return row


def wait_for_job(
    cli: CliContext,
    job: dict[str, Any],
    *,
    until: Callable[[Job], bool],
    seconds: float | None = None,
) -> dict[str, Any]:
    """The job once `until` is true of it. Raises CommandFailed(timeout) after `seconds`."""
    line, began = StatusLine(), cli.now()
    try:
        while not until(job):
            line.show(progress_text(job, cli.now()), progress_key(job))
            if seconds is not None and _since(began, cli.now()) >= seconds:
                sentence = f"{job['id']} is still {job['status']}; the job continues"
                raise CommandFailed(
                    "timeout", sentence, f"tessera why {job['id']}", ExitCode.TIMEOUT
                )
            job = _next(cli, job)
    finally:
        line.clear()
    return job


def _next(cli: CliContext, job: Job) -> dict[str, Any]:
    """The job after its next event, or a few seconds later."""
    since = job.get("last_event")
    wait = cli.long_poll_seconds if since is not None else 0
    if job["status"] in STARTING:
        # The progress of its image's pull is no event.
        wait = min(wait, PULL_POLL_SECONDS)
    cli.pause(REPOLL_SECONDS if wait else POLL_SECONDS)
    row: dict[str, Any] = cli.client.get(
        api_path("jobs", str(job["id"])), wait=wait or None, since=since if wait else None
    )
    return row


def is_over(job: Job) -> bool:
    return job["status"] in FINAL_STATUSES


def has_started(job: Job) -> bool:
    return job["status"] in FINAL_STATUSES or job["status"] in ("running", "stopping")


def _since(began: datetime, now: datetime) -> float:
    return (now - began).total_seconds()
