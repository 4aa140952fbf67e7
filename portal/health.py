"""Whether this process works, for load balancers and engines; none of it needs a host name or TLS.

- `/livez`: the event loop responds.
- `/readyz`: send requests here: the database responds, its migrations are applied, and the process
  is not shutting down. Otherwise 503, with what is missing.
- `/healthz`: the database responds; a page of Django's, with its host checks.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LIVE, READY = "/livez", "/readyz"
PROBES = (LIVE, READY)
OK = "ok"
DRAINING = "draining: the process is shutting down"
NO_DATABASE = "database: it does not respond"
NOT_MIGRATED = "migrations: some are not applied; run manage.py migrate"
# Anybody may call: however many do, the database is asked once in this time, by one thread.
KEPT_SECONDS = 1.0
DATABASE_SECONDS = 3.0
RETRY_SECONDS = 5

log = logging.getLogger(__name__)


def healthz(request: HttpRequest) -> HttpResponse:
    try:
        _query()
    except DatabaseError:
        return HttpResponse("database away\n", status=503, content_type="text/plain")
    return HttpResponse("ok\n", content_type="text/plain")


async def probe(scope: Scope, send: Send, *, is_draining: bool) -> None:
    """Serve `/livez` or `/readyz`."""
    if scope["method"] not in ("GET", "HEAD"):
        await _respond(scope, send, 405, "only GET and HEAD", (b"allow", b"GET, HEAD"))
        return
    problem = "" if scope["path"] == LIVE else await readiness.problem(is_draining=is_draining)
    if problem:
        await _respond(scope, send, 503, problem, (b"retry-after", str(RETRY_SECONDS).encode()))
    else:
        await _respond(scope, send, 200, OK)


class Readiness:
    """What keeps this process from serving, for any number of callers."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._running: asyncio.Future[str] | None = None
        self._found = ""
        self._found_at = -KEPT_SECONDS
        self._is_migrated = False

    async def problem(self, *, is_draining: bool) -> str:
        """Empty if the process is ready. Takes at most DATABASE_SECONDS."""
        if is_draining:
            return DRAINING
        if time.monotonic() - self._found_at < KEPT_SECONDS:
            return self._found
        if self._running is None or self._running.done():
            loop = asyncio.get_running_loop()
            self._running = loop.run_in_executor(self._thread, self._check)
        try:
            # A check that takes longer goes on, and the next caller waits for the same one.
            return await asyncio.wait_for(asyncio.shield(self._running), DATABASE_SECONDS)
        except TimeoutError:
            return NO_DATABASE

    def _check(self) -> str:
        try:
            _query()
            # The code of a process stays the same, and so does what it needs of the database,
            # until that one has been away: it may be an older one then.
            self._is_migrated = self._is_migrated or is_migrated()
            self._found = "" if self._is_migrated else NOT_MIGRATED
        except (DatabaseError, InterfaceError) as error:
            log.warning("not ready: %s", error)
            self._found, self._is_migrated = NO_DATABASE, False
        finally:
            connection.close()
            self._found_at = time.monotonic()
        return self._found


readiness = Readiness()


def is_migrated() -> bool:
    """Whether the database has every migration of this code. Migrations of newer code do no harm:
    an upgrade applies them while this code still serves."""
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())


def _query() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


async def _respond(
    scope: Scope, send: Send, status: int, text: str, *headers: tuple[bytes, bytes]
) -> None:
    body = f"{text}\n".encode()
    always = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*always, *headers]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
