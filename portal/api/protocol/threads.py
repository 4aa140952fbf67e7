"""REST calls, each answered in one thread: from the first middleware to the end of the request.

Django's own handler for ASGI takes every middleware that is not asynchronous to a thread and back:
14 times for a call here, and it starts two threads for each call. That cost more processor time
than the statements of a submit, and each way back waits its turn behind other threads.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import get_script_prefix
from django.core.signals import request_finished, request_started
from django.db import connections
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from portal.spooled_bodies import SpoolingHandler

PREFIX = "/api/v1/"
# As many threads as there were calls at once, long polls among them; none is started beforehand.
MAX_THREADS = 1_000


class RestHandler(SpoolingHandler):
    """Django's handler, with synchronous middleware and views in threads that are kept."""

    def __init__(self) -> None:
        super().__init__()
        pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="rest")
        # Not a plain executor: a long poll's view goes back to this loop for a while, and is
        # cancelled there if its caller hangs up.
        self._respond_in_thread = sync_to_async(
            self._respond, thread_sensitive=False, executor=pool
        )
        self._close_in_thread = sync_to_async(_close, thread_sensitive=False, executor=pool)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with body:
            answer = asyncio.create_task(self._answer(scope, body, send))
            hang_up = asyncio.create_task(self._until_hung_up(receive))
            try:
                await asyncio.wait((answer, hang_up), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _end(hang_up)
                await _end(answer)
        if not answer.cancelled():
            answer.result()

    async def _answer(self, scope: Any, body: IO[bytes], send: Any) -> None:
        response = await self._respond_in_thread(scope, body)
        try:
            await self.send_response(response, send)
        finally:
            if response.streaming:
                await self._close_in_thread(response)

    async def _until_hung_up(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    def _respond(self, scope: Any, body: IO[bytes]) -> Any:
        """The response; the request is finished with it, but for a stream."""
        set_script_prefix(get_script_prefix(scope))
        request_started.send(sender=type(self), scope=scope)
        with _finished_on_failure(type(self)):
            request, refusal = self.create_request(scope, body)
            response: Any = refusal if request is None else self.get_response(request)
        response._handler_class = type(self)  # read by `close`
        if response.streaming:
            # It has nothing more to ask in this thread, which other calls use meanwhile.
            connections.close_all()
        else:
            response.close()
        return response


@contextmanager
def _finished_on_failure(sender: type) -> Iterator[None]:
    """A call whose caller hung up gives its connection back as well."""
    try:
        yield
    except BaseException:
        request_finished.send(sender=sender)
        raise


def _close(response: HttpResponseBase) -> None:
    response.close()


async def _end(task: "asyncio.Task[None]") -> None:
    """Cancel a task that is not over, and wait until it is."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
