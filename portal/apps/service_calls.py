"""Calls of services: each to one of the copies that take calls, some to a second one."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from portal.apps import answers
from portal.apps.answers import CallRefused
from portal.apps.headers import Header
from portal.apps.hosts import AppName
from portal.apps.http_exchange import CallEnd, CallEnded, ConnectionCut, NoAnswer
from portal.apps.repeatable_calls import RepeatableReceive, is_repeatable
from portal.apps.service_pools import ChosenCopy, NoCopyReady, ServicePool, ServicePools
from portal.apps.threads import run_in_thread
from portal.asgi_scope import Message, Receive, Scope, Send
from portal.job_services.loads import CallCounts, loads_report
from portal.job_services.selectors import service_routes
from portal.tunnel.registry import PROCESS
from portal.tunnel.streams import PortStream, Target

# For so long a call looks for a copy of its service that can be reached.
RETRY_SECONDS = 120.0

# Raises CallRefused.
Open = Callable[[Target, str], Awaitable[PortStream]]
# Raises NoAnswer, ConnectionCut, CallEnded and CallRefused.
Exchange = Callable[[Scope, Receive, Send, PortStream, list[Header], CallEnd], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """A call whose caller may do it."""

    scope: Scope
    receive: Receive
    send: Send
    headers: Callable[[], list[Header]]
    """What a copy is sent, made when it is: the portal's word on the caller is valid for a minute,
    and a call may wait longer for a copy."""
    end: CallEnd


class AnswerStatus:
    """Passes on what a caller is sent, and keeps whether it begins as an error of the copy."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_error = False

    async def send(self, message: Message) -> None:
        if message["type"].endswith("http.response.start"):
            self.is_error = message["status"] >= 500
        await self._send(message)


class ServiceCalls:
    """Those of one event loop."""

    def __init__(self, open_port: Open, exchange: Exchange, *, wait_seconds: float) -> None:
        self._open_port, self._exchange = open_port, exchange
        self._pools = ServicePools(
            lambda services: run_in_thread(service_routes, services),
            lambda counts: run_in_thread(_report, counts),
            wait_seconds=wait_seconds,
        )

    async def pass_on(self, call: ServiceCall, name: AppName) -> None:
        """To the copy with the fewest calls, of the service or of its canary. One that cannot be
        reached has seen nothing of the call, so another one gets it; one that was reached may have
        done something, so only a call that changes nothing is sent once more. Raises what
        `Exchange` raises."""
        begun, receive = time.monotonic(), RepeatableReceive(call.receive)
        service, may_repeat = self._pools.pool(name.service_pk), is_repeatable(call.scope)
        roll, status = secrets.randbelow(100), AnswerStatus(call.send)
        while True:
            copy = await self._copy(service, roll, call, receive, name.place)
            pool = copy.pool
            with pool.call(copy.job):
                try:
                    stream = await self._open_port(copy.target, name.place)
                except CallRefused:
                    pool.avoid(copy.job)
                    if time.monotonic() - begun > RETRY_SECONDS:
                        raise
                    continue
                try:
                    await self._exchange(
                        call.scope, receive, status.send, stream, call.headers(), call.end
                    )
                except (NoAnswer, ConnectionCut) as broken:
                    pool.note_error()
                    is_late = isinstance(broken, NoAnswer) and broken.is_late
                    if is_late or not may_repeat:
                        raise
                    pool.avoid(copy.job)
                    may_repeat = False
                    receive.rewind()
                    continue
            pool.note_duration(time.monotonic() - begun)
            if status.is_error:
                pool.note_error()
            return

    async def _copy(
        self,
        pool: ServicePool,
        roll: int,
        call: ServiceCall,
        receive: RepeatableReceive,
        place: str,
    ) -> ChosenCopy:
        """Raises CallEnded, also if the caller hangs up meanwhile, and CallRefused."""
        copy = asyncio.ensure_future(self._pools.copy_for_call(pool, roll))
        tasks: list[asyncio.Future[Any]] = [copy, asyncio.ensure_future(call.end.wait())]
        if call.scope["type"] == "http":
            tasks.append(asyncio.ensure_future(receive.until_gone()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not copy.done():
                raise CallEnded
            return copy.result()
        except NoCopyReady:
            raise CallRefused(answers.not_ready(place), closes=True) from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _report(counts: Mapping[int, CallCounts]) -> None:
    loads_report(process=PROCESS, counts=counts, now=timezone.now())
