"""Calls to apps in a test's own process: a real TCP server as the job's port, and ASGI as a web
server speaks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LONG_SECONDS = 20


class SocketStream:
    """A TCP connection, as a tunnel's stream is."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(65_536)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write_eof()

    def abort(self) -> None:
        self._writer.transport.abort()


async def stream_to(port: int) -> SocketStream:
    return SocketStream(*await asyncio.open_connection("127.0.0.1", port))


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[int]:
    """The port of a server with this handler, whose connections end before the block does."""
    running: set[asyncio.Task[None] | None] = set()

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.add(asyncio.current_task())
        # A caller may go before it has said anything.
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await handler(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(tracked, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        async with asyncio.timeout(LONG_SECONDS):
            await asyncio.gather(*[task for task in running if task])


def saying(answer: bytes, *, hears: list[bytes] | None = None) -> Handler:
    """Reads the head of a request, says this and hangs up."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if hears is not None:
            hears.append(head)
        writer.write(answer)
        await writer.drain()
        writer.close()

    return handle


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads for ever and never answers."""
    while await reader.read(65_536):
        pass
    writer.close()


@dataclass
class Call:
    """One call as a web server passes it to an application: what the caller sends is put into
    `sent`, what the application says is in `said`."""

    scope: dict[str, Any]
    sent: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    said: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)

    async def run(self, application: Callable[..., Awaitable[None]]) -> list[dict[str, Any]]:
        """All that it says, of a call that ends by itself."""
        async with asyncio.timeout(LONG_SECONDS):
            await application(self.scope, self.sent.get, self.said.put)
        return [self.said.get_nowait() for _ in range(self.said.qsize())]

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(LONG_SECONDS):
            return await self.said.get()


def http_call(
    path: str = "/",
    *,
    method: str = "GET",
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    query: str = "",
) -> Call:
    call = Call(_scope("http", path, headers, query) | {"method": method})
    call.sent.put_nowait({"type": "http.request", "body": body, "more_body": False})
    return call


def websocket_call(
    path: str = "/", *, headers: Iterable[tuple[str, str]] = (), subprotocols: Iterable[str] = ()
) -> Call:
    extensions: dict[str, Any] = {"websocket.http.response": {}}
    scope = _scope("websocket", path, headers, "") | {"extensions": extensions}
    call = Call(scope | {"subprotocols": list(subprotocols)})
    call.sent.put_nowait({"type": "websocket.connect"})
    return call


def _scope(kind: str, path: str, headers: Iterable[tuple[str, str]], query: str) -> dict[str, Any]:
    return {
        "type": kind,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "scheme": "http" if kind == "http" else "ws",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "client": ("192.0.2.7", 5),
    }


def status_of(messages: list[dict[str, Any]]) -> int:
    """Of an answer or a refused WebSocket; 101 for one that was accepted, 0 if nothing was said."""
    for message in messages:
        if message["type"].endswith("http.response.start"):
            return int(message["status"])
        if message["type"] == "websocket.accept":
            return 101
    return 0


def body_of(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(each.get("body", b"") for each in messages)


def header_of(messages: list[dict[str, Any]], name: str) -> list[str]:
    start = next(each for each in messages if each["type"].endswith("http.response.start"))
    return [value.decode() for key, value in start["headers"] if key == name.encode()]
