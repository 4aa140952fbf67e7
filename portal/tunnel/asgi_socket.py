"""The WebSocket of the side that serves, as a link uses it; and the answer where there is none."""

import json

from agents.tunnel.link import SocketClosed
from portal.asgi_scope import Message, Receive, Send


class AsgiSocket:
    """A WebSocket of the server, from its handshake on. What it sends waits for the network."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_closed = False

    async def accept(self) -> None:
        """Raises SocketClosed."""
        await self._pass_on({"type": "websocket.accept"})

    async def send(self, message: bytes) -> None:
        await self._pass_on({"type": "websocket.send", "bytes": message})

    async def receive(self) -> bytes:
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._is_closed = True
            raise SocketClosed
        # A text is no frame, which the link says.
        return message.get("bytes") or b""

    async def close(self, code: int, reason: str) -> None:
        # Of RFC 6455: a reason has at most 123 bytes.
        closing = {"type": "websocket.close", "code": code, "reason": reason[:60]}
        await self._pass_on(closing)
        self._is_closed = True

    async def _pass_on(self, message: Message) -> None:
        if self._is_closed:
            raise SocketClosed
        try:
            await self._send(message)
        except OSError as error:
            self._is_closed = True
            raise SocketClosed from error


async def refuse_handshake(
    receive: Receive, send: Send, status: int, body: object, *, retry_after: int = 0
) -> None:
    """Answer a handshake as a plain call, with JSON. `retry_after`: seconds; 0 leaves it out."""
    await receive()
    data = json.dumps(body, separators=(",", ":")).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(data)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if retry_after:
        headers.append((b"retry-after", str(retry_after).encode()))
    start = {"type": "websocket.http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": data})
