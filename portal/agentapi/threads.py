"""Bounded pools of threads in which agents' calls use the database and the store of bytes.

Nothing waits for a bell here: an open long poll owns neither a thread nor a connection (measured:
1,000 open calls, 13 threads). Each thread keeps its connection from call to call.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import Any, TypeVar

from django.conf import settings
from django.db import connections

from portal.platform.site import AGENT_FILE_THREADS, AGENT_LOG_THREADS

Result = TypeVar("Result")
# A coroutine function as those below.
RunInThread = Callable[..., Awaitable[Any]]
# Reading JSON holds the interpreter's lock: more threads would only keep the event loop waiting.
DECODE_THREADS = 1


async def run_in_thread(work: Callable[..., Result], **arguments: object) -> Result:
    """Run `work` in the pool and return its result, or raise what it raised."""
    loop = asyncio.get_running_loop()
    # With the address and the request id of the call, which audit lines name.
    run = partial(copy_context().run, _run, work, arguments)
    return await loop.run_in_executor(_pool(), run)


async def run_in_log_thread(work: Callable[..., Result], **arguments: object) -> Result:
    """The same in threads of their own, for calls with logs: they are never ahead of a report."""
    run = partial(copy_context().run, _run, work, arguments)
    return await asyncio.get_running_loop().run_in_executor(_log_pool(), run)


async def run_in_file_thread(work: Callable[..., Result], **arguments: object) -> Result:
    """The same in threads of their own, for files of jobs: no log waits for them."""
    run = partial(copy_context().run, _run, work, arguments)
    return await asyncio.get_running_loop().run_in_executor(_file_pool(), run)


async def run_in_store_thread(work: Callable[..., Result], **arguments: object) -> Result:
    """The same in threads of their own, for work that waits for a store of bytes."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_store_pool(), partial(_run, work, arguments))


async def run_in_decode_thread(work: Callable[[], Result]) -> Result:
    """The same without a database, for bodies: the event loop goes on while they are read."""
    return await asyncio.get_running_loop().run_in_executor(_decode_pool(), work)


def waiting_call_count() -> int:
    """Calls that wait for a thread with a database connection."""
    return _pool()._work_queue.qsize()


@cache
def _decode_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(DECODE_THREADS, thread_name_prefix="agentdecode")


@cache
def _store_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.PLATFORM.agent_threads, thread_name_prefix="agentstore")


@cache
def _log_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AGENT_LOG_THREADS, thread_name_prefix="agentlog")


@cache
def _file_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AGENT_FILE_THREADS, thread_name_prefix="agentfile")


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.PLATFORM.agent_threads, thread_name_prefix="agentapi")


def _run(work: Callable[..., Result], arguments: dict[str, object]) -> Result:
    try:
        return work(**arguments)
    finally:
        for connection in connections.all(initialized_only=True):
            # Not close_old_connections: CONN_MAX_AGE is 0 for Django's own requests.
            if connection.errors_occurred:
                connection.close_if_unusable_or_obsolete()
