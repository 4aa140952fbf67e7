"""One HTTP request of a caller, and the app's answer to it, over a stream of their own.

The request is written anew by h11: whatever framing the caller used, the app sees one. Bytes pass
both ways at once, each only as fast as the slower side takes them.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import h11

from portal.apps.headers import Header, response_headers
from portal.asgi_scope import Receive, Send
from portal.tunnel.streams import PortStream

# Of the app's status line and headers.
MAX_HEAD_BYTES = 64 * 1024
# Until the answer begins, once the app has the whole request; also while it takes no bytes of one.
FIRST_BYTE_SECONDS = 120.0
# RFC 9112, 6.3: answers that end with their headers, whatever those say.
BODILESS = (204, 304)


class NoAnswer(Exception):
    """The app did not begin to answer: too late, or with something that is no HTTP."""

    def __init__(self, *, is_late: bool) -> None:
        super().__init__("late" if is_late else "no HTTP")
        self.is_late = is_late


class ConnectionCut(Exception):
    """The way to the app broke before it began to answer; it may have handled the request."""


class CallEnded(Exception):
    """The caller may not go on, or has hung up, before the answer began."""


class CallEnd(asyncio.Event):
    """Set as soon as a call has to end."""

    def __init__(self, *, is_socket: bool = False) -> None:
        super().__init__()
        self.is_socket = is_socket
        self.is_restart = False
        """The portal restarts: the caller may come again at once, elsewhere."""


class HttpExchange:
    """Carries one request over, and its answer back."""

    def __init__(
        self,
        stream: PortStream,
        *,
        receive: Receive,
        send: Send,
        hidden_cookies: Collection[str],
        first_byte_seconds: float = FIRST_BYTE_SECONDS,
    ) -> None:
        self._stream = stream
        self._receive, self._send = receive, send
        self._hidden_cookies = hidden_cookies
        self._seconds = first_byte_seconds
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._has_request = False
        self._patience: asyncio.Timeout | None = None
        """While the beginning of the answer is waited for: without an end until the app has the
        whole request."""
        self.has_begun = False
        """Whether the caller has seen anything of the answer."""

    async def run(self, head: h11.Request, end: asyncio.Event) -> None:
        """Raises NoAnswer, ConnectionCut or CallEnded as long as the caller has seen nothing. What
        breaks later is left unfinished, which the server tells by closing the connection."""
        answer = asyncio.ensure_future(self._answer())
        gone = asyncio.ensure_future(self._request(head))
        ended = asyncio.ensure_future(end.wait())
        tasks: tuple[asyncio.Future[Any], ...] = (answer, gone, ended)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                answer.result()
            elif not self.has_begun:
                if gone.done():
                    gone.result()
                raise CallEnded
        except h11.RemoteProtocolError:
            if not self.has_begun:
                raise NoAnswer(is_late=False) from None
        except OSError:
            if not self.has_begun:
                raise ConnectionCut from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._stream.abort()

    async def _request(self, head: h11.Request) -> None:
        """Send the request, then wait until the caller hangs up. Raises NoAnswer if the app takes
        nothing of it for too long."""
        with suppress(OSError):
            # An app may answer before it has read everything, and close its side: the rest of the
            # request is then read and dropped below.
            await self._write(head)
            has_more = True
            while has_more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    return
                if body := message.get("body", b""):
                    await self._write(h11.Data(data=body))
                has_more = message.get("more_body", False)
            await self._write(h11.EndOfMessage())
        self._has_request = True
        self._limit_patience()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _write(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            try:
                async with asyncio.timeout(self._seconds):
                    await self._stream.write(data)
            except TimeoutError:
                raise NoAnswer(is_late=True) from None

    async def _answer(self) -> None:
        head = await self._head()
        headers: list[Header] = response_headers(head.headers, hidden_cookies=self._hidden_cookies)
        if head.status_code in BODILESS:
            # Of the body that a 200 would have; the server would wait for so many bytes.
            headers = [each for each in headers if each[0] != b"content-length"]
        self.has_begun = True
        start = {"type": "http.response.start", "status": head.status_code, "headers": headers}
        await self._send(start)
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                body = {"type": "http.response.body", "body": bytes(event.data), "more_body": True}
                await self._send(body)
            elif isinstance(event, h11.EndOfMessage):
                await self._send({"type": "http.response.body", "body": b""})
                return
            else:
                raise h11.RemoteProtocolError("the answer ends before its end")

    async def _head(self) -> h11.Response:
        """Raises NoAnswer."""
        try:
            async with asyncio.timeout(None) as self._patience:
                self._limit_patience()
                return await self._final_head()
        except TimeoutError:
            raise NoAnswer(is_late=True) from None
        finally:
            self._patience = None

    def _limit_patience(self) -> None:
        if self._has_request and self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time() + self._seconds)

    async def _final_head(self) -> h11.Response:
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                # h11 itself refuses only what it has to keep while more is to come.
                if (
                    sum(len(name) + len(value) + 4 for name, value in event.headers)
                    > MAX_HEAD_BYTES
                ):
                    raise h11.RemoteProtocolError("the headers are too long")
                return event
            # Answers on the way, such as 103 Early Hints. The server itself says 100 Continue.
            if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
                raise h11.RemoteProtocolError("no answer to this request")

    async def _event(self) -> Any:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(await self._stream.read())
