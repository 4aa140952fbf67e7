"""Long poll: delay a response until a job has a new event, without a database connection."""

import time

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection

from portal.audit.selectors import newest_event_id
from portal.jobs.models import Job
from portal.live.listener import subscribe

# A bell may be lost: check at least this often.
CHECK_SECONDS = 5.0


def wait_for_event(job: Job, since: int | None, seconds: float) -> None:
    """Return when the job has an event after `since` (default: the newest one now), or after
    `seconds`."""
    async_to_sync(_wait)(job, since, seconds)


async def _wait(job: Job, since: int | None, seconds: float) -> None:
    end = time.monotonic() + seconds
    # Runs in the request's own thread, whose connection is released after each read.
    newest = sync_to_async(_newest)
    with subscribe(f"job:{job.pk}") as bell:
        start = await newest(job) if since is None else since
        while (left := end - time.monotonic()) > 0 and not bell.is_closing:
            if since is not None and await newest(job) > start:
                return
            await bell.wait(min(left, CHECK_SECONDS))
            if await newest(job) > start:
                return


def _newest(job: Job) -> int:
    try:
        return newest_event_id(job)
    finally:
        release_connection()


def release_connection() -> None:
    """Close this thread's database connection before a wait, unless a transaction needs it."""
    if not connection.in_atomic_block:
        connection.close()
