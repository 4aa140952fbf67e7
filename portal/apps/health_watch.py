"""Asks the copies of services whether they take calls, through the tunnels: in each web process,
for as long as it runs. Which process asks which copy is decided in the database."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection

import h11
from django.db import DatabaseError
from django.utils import timezone

from portal.apps.threads import run_in_thread
from portal.job_services.readiness import HealthCheck, check_record, checks_claim
from portal.live.listener import subscribe
from portal.tunnel.streams import PortStream, StreamRefused, Target

LOOK_SECONDS = 1.0
# Without a ring of a service or a check within BUSY_SECONDS.
IDLE_SECONDS, BUSY_SECONDS = 5.0, 60.0
ANSWER_SECONDS = 5.0
MAX_HEAD_BYTES = 64 * 1024
# At once, in one process.
MAX_CHECKS = 32
AGENT = b"tessera-health"

OpenStream = Callable[[Target], Awaitable[PortStream]]

log = logging.getLogger(__name__)


async def watch_health(open_stream: OpenStream) -> None:
    """Until the process shuts down."""
    running: set[asyncio.Task[None]] = set()
    busy_until = 0.0
    with subscribe("service:*") as bell:
        try:
            while not bell.is_closing:
                room = MAX_CHECKS - len(running)
                checks = await _claimed(room) if room else ()
                for check in checks:
                    task = asyncio.create_task(_carry_out(check, open_stream))
                    running.add(task)
                    task.add_done_callback(running.discard)
                is_busy = bool(checks) or time.monotonic() < busy_until
                if await bell.wait(LOOK_SECONDS if is_busy else IDLE_SECONDS) or checks:
                    busy_until = time.monotonic() + BUSY_SECONDS
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def is_healthy(check: HealthCheck, open_stream: OpenStream) -> bool:
    """Whether the health path answers with a status of success within ANSWER_SECONDS."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            stream = await open_stream(check.target)
            try:
                return await _status(stream, check) // 100 == 2
            finally:
                stream.abort()
    except (StreamRefused, TimeoutError, OSError, h11.ProtocolError):
        return False


async def _claimed(most: int) -> Collection[HealthCheck]:
    try:
        return await run_in_thread(checks_claim, timezone.now(), most)
    except DatabaseError as error:
        log.warning("copies of services are not asked for their health: %s", error)
    except Exception:
        log.exception("copies of services cannot be asked for their health")
    return ()


async def _carry_out(check: HealthCheck, open_stream: OpenStream) -> None:
    found = await is_healthy(check, open_stream)
    try:
        await run_in_thread(_record, check, found)
    except DatabaseError as error:
        log.warning("the health of a copy is not noted: %s", error)


def _record(check: HealthCheck, found: bool) -> None:
    check_record(check=check, is_healthy=found, now=timezone.now())


async def _status(stream: PortStream, check: HealthCheck) -> int:
    """Of the answer to a GET of the health path. Raises h11.ProtocolError."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
    headers = [
        (b"host", f"localhost:{check.target.port}".encode()),
        (b"user-agent", AGENT),
        (b"accept", b"*/*"),
        (b"connection", b"close"),
    ]
    request = h11.Request(method=b"GET", target=check.path.encode(), headers=headers)
    await stream.write((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await stream.read())
        elif isinstance(event, h11.Response):
            return event.status_code
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("no answer to this request")
