"""Calls of services: each to one of the copies that take calls, some to a second one."""

import asyncio
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
from portal.apps.service_pools import NoCopyReady, ServicePool, ServicePools
from portal.apps.threads import run_in_thread
from portal.asgi_scope import Receive, Scope, Send
from portal.job_services.loads import CallCounts, loads_report
from portal.job_services.selectors import ready_targets
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


class ServiceCalls:
    """Those of one event loop."""

    def __init__(self, open_port: Open, exchange: Exchange, *, wait_seconds: float) -> None:
        self._open_port, self._exchange = open_port, exchange
        self._pools = ServicePools(
            lambda services: run_in_thread(ready_targets, services),
            lambda counts: run_in_thread(_report, counts),
            wait_seconds=wait_seconds,
        )

    async def pass_on(self, call: ServiceCall, name: AppName) -> None:
        """To the copy with the fewest calls. One that cannot be reached has seen nothing of the
        call, so another one gets it; one that was reached may have done something, so only a call
        that changes nothing is sent once more. Raises what `Exchange` raises."""
        begun, receive = time.monotonic(), RepeatableReceive(call.receive)
        pool, may_repeat = self._pools.pool(name.service_pk), is_repeatable(call.scope)
        while True:
            job, target = await self._copy(pool, call, receive, name.place)
            with pool.call(job):
                try:
                    stream = await self._open_port(target, name.place)
                except CallRefused:
                    pool.avoid(job)
                    if time.monotonic() - begun > RETRY_SECONDS:
                        raise
                    continue
                try:
                    await self._exchange(
                        call.scope, receive, call.send, stream, call.headers(), call.end
                    )
                except (NoAnswer, ConnectionCut) as broken:
                    is_late = isinstance(broken, NoAnswer) and broken.is_late
                    if is_late or not may_repeat:
                        raise
                    pool.avoid(job)
                    may_repeat = False
                    receive.rewind()
                    continue
            pool.note_duration(time.monotonic() - begun)
            return

    async def _copy(
        self, pool: ServicePool, call: ServiceCall, receive: RepeatableReceive, place: str
    ) -> tuple[int, Target]:
        """Raises CallEnded, also if the caller hangs up meanwhile, and CallRefused."""
        copy = asyncio.ensure_future(self._pools.copy_for_call(pool))
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
