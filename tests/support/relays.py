"""What stands before a portal: a TLS front and a proxy for CONNECT; and a server in its place."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.certificates import Pair

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def json_server(answers: Mapping[str, tuple[int, object]]) -> Iterator[int]:
    """Answers every call of a method with that status and body; yields its port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if length := re.search(r"content-length: (\d+)", head, re.IGNORECASE):
            await reader.readexactly(int(length[1]))
        status, value = answers[head.split(" ", 1)[0]]
        body = json.dumps(value).encode()
        ends = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(f"HTTP/1.1 {status} Answer\r\n{ends}".encode() + body)
        await writer.drain()
        writer.close()

    with _serving(handle) as own:
        yield own


@contextmanager
def tls_front(folder: Path, pair: Pair, port: int) -> Iterator[int]:
    """A server with this certificate before the plain one on `port`; yields its own port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    pem = folder / "front.pem"
    pem.write_text(pair.key + pair.certificate)
    context.load_cert_chain(pem)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _join(reader, writer, *await asyncio.open_connection("127.0.0.1", port))

    with _serving(handle, context) as own:
        yield own


@dataclass
class ConnectProxy:
    """`ports`: by "host:port" of a CONNECT, the port on loopback that it leads to."""

    ports: Mapping[str, int]
    # "user:password" that it demands; empty: none.
    credentials: str = ""
    port: int = 0
    # What clients connected to.
    targets: list[str] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split("\r\n", 1)[0].split(" ")
        status, other = self._refusal(method, target, head), None
        if not status:
            self.targets.append(target)
            try:
                other = await asyncio.open_connection("127.0.0.1", self.ports[target])
            except OSError:
                status = "502 Bad Gateway"
        writer.write(f"HTTP/1.1 {status or '200 Connected'}\r\n\r\n".encode())
        if other is None:
            writer.close()
            return
        await _join(reader, writer, *other)

    def _refusal(self, method: str, target: str, head: str) -> str:
        basic = "Basic " + base64.b64encode(self.credentials.encode()).decode()
        if self.credentials and f"Proxy-Authorization: {basic}\r\n".lower() not in head.lower():
            return "407 Proxy Authentication Required"
        return "" if method == "CONNECT" and target in self.ports else "403 Forbidden"


@contextmanager
def connect_proxy(ports: Mapping[str, int], credentials: str = "") -> Iterator[ConnectProxy]:
    proxy = ConnectProxy(ports, credentials)
    with _serving(proxy.handle) as proxy.port:
        yield proxy


@contextmanager
def _serving(handle: Handler, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve on a thread of its own; yields the port."""
    ready: list[int] = []
    started, loop = threading.Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await handle(reader, writer)

    async def serve() -> None:
        server = await asyncio.start_server(quietly, "127.0.0.1", 0, ssl=context)
        ready.append(server.sockets[0].getsockname()[1])
        started.set()
        await ended.wait()
        server.close()
        every = asyncio.all_tasks() - {asyncio.current_task()}
        for task in every:
            task.cancel()
        await asyncio.gather(*every, return_exceptions=True)

    # A client that refuses the certificate is no failure of this server.
    loop.set_exception_handler(lambda *_: None)
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    started.wait()
    try:
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    other_reader: asyncio.StreamReader,
    other_writer: asyncio.StreamWriter,
) -> None:
    """Bytes both ways, until either side ends."""
    ways = [
        asyncio.create_task(_pass(reader, other_writer)),
        asyncio.create_task(_pass(other_reader, writer)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        for side in (writer, other_writer):
            side.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
