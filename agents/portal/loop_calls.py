"""Calls of the portal from threads beside the event loop in which all calls are made."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NoAnswer
from typing import Any, TypeVar

from agents.portal.client import PortalClient, PortalUnreachable

Answer = TypeVar("Answer")


class LoopCalls:
    """For any thread but the event loop's own."""

    def __init__(self, client: PortalClient, loop: asyncio.AbstractEventLoop) -> None:
        self.client = client
        self._loop = loop

    def answer(self, call: Coroutine[Any, Any, Answer], seconds: float) -> Answer:
        """What the client's call returns. Raises what it raises, and PortalUnreachable before the
        first hello, after `seconds`, and once the agent is ending."""
        if not self.client.epoch:
            call.close()
            raise PortalUnreachable("the portal has not answered yet")
        try:
            future = asyncio.run_coroutine_threadsafe(call, self._loop)
        except RuntimeError as ended:
            call.close()
            raise PortalUnreachable("the agent is ending") from ended
        try:
            return future.result(seconds)
        except (NoAnswer, CancelledError) as away:
            future.cancel()
            raise PortalUnreachable("the portal did not answer in time") from away
