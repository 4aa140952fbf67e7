"""A lean HTTP/1.1 client with kept-alive connections: what a thousand agents in one process afford.

A connection carries one call at a time. One whose call was cut short, by an error or because its
task was cancelled, is closed: its late answer can never be taken for that of the next call.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

# A sync call stays open for 24 s, and the portal may be busy.
TIMEOUT_SECONDS = 60.0
# Servers close idle connections after some seconds; a younger one is still open.
MAX_IDLE_SECONDS = 3.0


class Unreachable(Exception):
    """The server did not take the connection, or closed it before its answer was complete."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return json.loads(self.body)


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.idle_since = 0.0

    async def exchange(self, head: bytes, body: bytes) -> tuple[Answer, bool]:
        """The answer, and whether the connection can carry another call."""
        self.writer.write(head + body)
        await self.writer.drain()
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ", 2)[1])
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        size = int(headers.get("content-length", "-1"))
        if size < 0:
            raise Unreachable("an answer of unknown length: this client reads none")
        content = await self.reader.readexactly(size)
        return Answer(status, content), headers.get("connection") != "close"


class HttpClient:
    """Calls one server; as many connections as calls are open at once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._idle: list[_Connection] = []

    async def close(self) -> None:
        """End the connections that carry no call."""
        writers = [self._idle.pop().writer for _ in list(self._idle)]
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)

    async def call(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """Raises Unreachable, also if no answer came in a minute."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}:{self._port}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        head = "\r\n".join(lines).encode()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._exchange(head, body)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
            raise Unreachable(f"{method} {path}: {error or type(error).__name__}") from error

    async def post(self, path: str, value: Any, headers: dict[str, str] | None = None) -> Answer:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        own = {"Content-Type": "application/json"}
        return await self.call("POST", path, body, own | (headers or {}))

    async def _exchange(self, head: bytes, body: bytes) -> Answer:
        connection = self._take_idle() or _Connection(
            *await asyncio.open_connection(self._host, self._port)
        )
        try:
            answer, can_go_on = await connection.exchange(head, body)
        except BaseException:
            connection.writer.transport.abort()
            raise
        if can_go_on:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.writer.close()
        return answer

    def _take_idle(self) -> _Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            is_young = now - connection.idle_since < MAX_IDLE_SECONDS
            if is_young and not connection.reader.at_eof():
                return connection
            connection.writer.close()
        return None
