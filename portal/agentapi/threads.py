"""One bounded pool of threads in which agents' calls meet the database.

Nothing waits for a bell here: a held call owns neither a thread nor a connection (sync_scale
facts: 1,000 held calls, 13 threads). Each thread keeps its connection from call to call.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TypeVar

from django.conf import settings
from django.db import connections

Answer = TypeVar("Answer")


async def run_in_thread(work: Callable[..., Answer], **arguments: object) -> Answer:
    """Run `work` in the pool and give its answer, or raise what it raised."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool(), partial(_run, work, arguments))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.PLATFORM.agent_threads, thread_name_prefix="agentapi")


def _run(work: Callable[..., Answer], arguments: dict[str, object]) -> Answer:
    try:
        return work(**arguments)
    finally:
        for connection in connections.all(initialized_only=True):
            # Not close_old_connections: CONN_MAX_AGE is 0 for Django's own requests.
            if connection.errors_occurred:
                connection.close_if_unusable_or_obsolete()
