"""One WebSocket of a caller, and the one to the app behind it.

Messages pass whole, one at a time and each way at its own speed: while one side does not take them,
none is read from the other.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidState, InvalidStatus, ProtocolError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from portal.apps.headers import Header, response_headers
from portal.apps.http_exchange import CallEnd, CallEnded, NoAnswer
from portal.asgi_scope import Receive, Send
from portal.tunnel.streams import PortStream

# As uvicorn takes them from callers.
MAX_MESSAGE_BYTES = 16 << 20
HANDSHAKE_SECONDS = 30.0
CLOSE_SECONDS = 1.0
POLICY_VIOLATION, INTERNAL_ERROR, NO_CODE, SERVICE_RESTART = 1008, 1011, 1005, 1012
# RFC 6455: headers of the handshake are each side's own.
HANDSHAKE_HEADERS = b"sec-websocket-"
RESTART_SENTENCE = "The portal restarts. Connect again"
ENDED_SENTENCE = "Open the app again from the page of its job"


class WebSocketExchange:
    """Joins the two, from the handshake to the first close."""

    def __init__(
        self,
        stream: PortStream,
        *,
        receive: Receive,
        send: Send,
        hidden_cookies: Collection[str],
        subprotocols: Sequence[str],
    ) -> None:
        self._stream = stream
        self._receive, self._send = receive, send
        self._hidden_cookies = hidden_cookies
        self._protocol = ClientProtocol(
            parse_uri("ws://app/"),
            subprotocols=[Subprotocol(each) for each in subprotocols] or None,
            max_size=MAX_MESSAGE_BYTES,
        )
        self._writing = asyncio.Lock()
        self._early: list[Any] = []
        self._pieces: list[bytes] = []
        self._is_text = False

    async def run(self, target: str, headers: Sequence[Header], end: CallEnd) -> None:
        """Raises NoAnswer or CallEnded before the caller has seen anything."""
        try:
            if await self._handshake(target, headers, end):
                await self._pass_messages(end)
        finally:
            self._stream.abort()

    async def _handshake(self, target: str, headers: Sequence[Header], end: CallEnd) -> bool:
        """Whether both sides speak WebSocket now. What else the app says, the caller is told."""
        own = self._protocol.connect()
        joined = Headers()
        for name, value in headers:
            if not name.startswith(HANDSHAKE_HEADERS):
                joined[name.decode("latin-1")] = value.decode("latin-1")
        for own_name in ("upgrade", "connection", "sec-websocket-key", "sec-websocket-version"):
            joined[own_name] = own.headers[own_name]
        if "sec-websocket-protocol" in own.headers:
            joined["sec-websocket-protocol"] = own.headers["sec-websocket-protocol"]
        self._protocol.send_request(Request(target, joined))
        response = await self._answer(end)
        refusal = self._protocol.handshake_exc
        if isinstance(refusal, InvalidStatus):
            await self._refuse(refusal.response)
            return False
        if refusal is not None or response is None:
            raise NoAnswer(is_late=False)
        accepted = {
            "type": "websocket.accept",
            "subprotocol": self._protocol.subprotocol,
            "headers": self._for_caller(response.headers),
        }
        await self._send(accepted)
        return True

    async def _answer(self, end: CallEnd) -> Any:
        """The app's; None where the protocol has a `handshake_exc`. Raises NoAnswer, CallEnded."""
        answering = asyncio.ensure_future(self._until_answered())
        tasks: tuple[asyncio.Future[Any], ...] = (answering, asyncio.ensure_future(end.wait()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise CallEnded
            return answering.result()
        except TimeoutError:
            raise NoAnswer(is_late=True) from None
        except OSError:
            raise NoAnswer(is_late=False) from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_answered(self) -> Any:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await self._flush()
            response = None
            while response is None and self._protocol.handshake_exc is None:
                response = await self._first_event()
            return response

    async def _first_event(self) -> Any:
        """The app's answer to the handshake; None until it is whole. Frames may follow at once and
        stay in the protocol's list for `_from_app`."""
        data = await self._stream.read()
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
            if self._protocol.handshake_exc is None:
                raise ConnectionAbortedError("the app hung up")
        events = self._protocol.events_received()
        self._early = events[1:]
        return events[0] if events else None

    async def _refuse(self, response: Any) -> None:
        headers = self._for_caller(response.headers)
        kept = [(name, value) for name, value in headers if name != b"content-length"]
        status = response.status_code
        await self._send(
            {"type": "websocket.http.response.start", "status": status, "headers": kept}
        )
        body = bytes(response.body or b"")
        await self._send({"type": "websocket.http.response.body", "body": body})

    async def _pass_messages(self, end: CallEnd) -> None:
        works: tuple[Any, ...] = (self._from_app(), self._from_caller(), end.wait())
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            was_ended = not tasks[0].done() and not tasks[1].done()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if was_ended:
            # At once; a caller that reads nothing does not hear of it.
            self._stream.abort()
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    if end.is_restart:
                        await self._close(SERVICE_RESTART, RESTART_SENTENCE)
                    else:
                        await self._close(POLICY_VIOLATION, ENDED_SENTENCE)

    async def _from_app(self) -> None:
        events = self._early
        try:
            while True:
                for event in events:
                    if isinstance(event, Frame) and await self._frame(event):
                        return
                if self._protocol.parser_exc is not None:
                    break
                data = await self._stream.read()
                if not data:
                    break
                self._protocol.receive_data(data)
                await self._flush()
                events = self._protocol.events_received()
        except OSError:
            pass
        await self._close(INTERNAL_ERROR, "The app ended the connection")

    async def _frame(self, frame: Frame) -> bool:
        """Pass on what a frame completes; True after the last one."""
        if frame.opcode is Opcode.CLOSE:
            close = self._protocol.close_rcvd
            code = close.code if close is not None else NO_CODE
            reason = close.reason if close is not None else ""
            await self._close(1000 if code == NO_CODE else int(code), reason)
            return True
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._pieces, self._is_text = [bytes(frame.data)], frame.opcode is Opcode.TEXT
        elif frame.opcode is Opcode.CONT:
            self._pieces.append(bytes(frame.data))
        else:
            return False
        if frame.fin:
            data, self._pieces = b"".join(self._pieces), []
            try:
                message = {"text": data.decode()} if self._is_text else {"bytes": data}
            except UnicodeDecodeError:
                await self._close(INTERNAL_ERROR, "The app sent text that is not UTF-8")
                return True
            await self._send({"type": "websocket.send"} | message)
        return False

    async def _from_caller(self) -> None:
        try:
            while True:
                message = await self._receive()
                if message["type"] == "websocket.disconnect":
                    code = message.get("code", NO_CODE)
                    self._say_close(None if code == NO_CODE else code)
                    await self._flush()
                    return
                text, data = message.get("text"), message.get("bytes")
                if text is not None:
                    self._protocol.send_text(text.encode())
                else:
                    self._protocol.send_binary(data or b"")
                await self._flush()
        except (OSError, ProtocolError, InvalidState):
            await self._close(INTERNAL_ERROR, "The app takes no more messages")

    def _say_close(self, code: int | None) -> None:
        try:
            self._protocol.send_close(code)
        except ProtocolError:
            # A code that may not be sent, such as that of a lost connection.
            self._protocol.fail(INTERNAL_ERROR)

    async def _close(self, code: int, reason: str) -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def _flush(self) -> None:
        """Write what the protocol has for the app, in its order."""
        async with self._writing:
            if data := b"".join(self._protocol.data_to_send()):
                await self._stream.write(data)

    def _for_caller(self, headers: Headers) -> list[Header]:
        raw = [(k.lower().encode(), v.encode("latin-1")) for k, v in headers.raw_items()]
        passed = response_headers(raw, hidden_cookies=self._hidden_cookies)
        return [header for header in passed if not header[0].startswith(HANDSHAKE_HEADERS)]
