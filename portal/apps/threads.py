"""Threads in which calls to apps ask the database; each gives its connection back at once."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import TypeVar

from django.db import close_old_connections

Result = TypeVar("Result")
# A page of an app asks for a hundred files at once, and all but the first read what is known.
THREADS = 2


async def run_in_thread(work: Callable[..., Result], *arguments: object) -> Result:
    run = partial(copy_context().run, _run, work, arguments)
    return await asyncio.get_running_loop().run_in_executor(_pool(), run)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="apps")


def _run(work: Callable[..., Result], arguments: tuple[object, ...]) -> Result:
    close_old_connections()
    try:
        return work(*arguments)
    finally:
        close_old_connections()
