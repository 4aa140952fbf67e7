"""Long poll: hold an answer until a job has a new event. No database connection is held."""

import time

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection

from portal.audit.selectors import newest_event
from portal.jobs.models import Job
from portal.live.listener import subscribe

# A bell may be lost: look again at least this often.
LOOK_SECONDS = 5.0


def wait_for_event(job: Job, since: int | None, seconds: float) -> None:
    """Return when the job has an event after `since` (by default, after the newest that there is
    now), or when the time is up."""
    async_to_sync(_wait)(job, since, seconds)


async def _wait(job: Job, since: int | None, seconds: float) -> None:
    end = time.monotonic() + seconds
    # In the request's own thread, with its own connection, which is given back after each look.
    look = sync_to_async(_newest)
    with subscribe(f"job:{job.pk}") as bell:
        start = await look(job) if since is None else since
        while (left := end - time.monotonic()) > 0 and not bell.is_closing:
            if since is not None and await look(job) > start:
                return
            await bell.wait(min(left, LOOK_SECONDS))
            if await look(job) > start:
                return


def _newest(job: Job) -> int:
    try:
        return newest_event(job)
    finally:
        release()


def release() -> None:
    """Give this thread's connection back before a wait; inside a transaction it has to stay."""
    if not connection.in_atomic_block:
        connection.close()
