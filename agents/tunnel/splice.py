"""Two ends of the same bytes joined: what one side reads, the other writes."""

import asyncio
from contextlib import suppress
from typing import Protocol


class ByteStream(Protocol):
    """Bytes in both directions, each with an end of its own."""

    async def read(self) -> bytes:
        """The next bytes; b"" at the end. Raises OSError."""

    async def write(self, data: bytes) -> None:
        """Returns once there is room for more. Raises OSError."""

    async def end(self) -> None:
        """No more data from this side. Raises OSError."""

    def abort(self) -> None:
        """Give it up; no effect once both directions have ended."""


class SocketStream:
    """A TCP connection as such a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(32 << 10)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write_eof()

    def abort(self) -> None:
        self._writer.transport.abort()

    def close(self) -> None:
        """What was written still leaves."""
        self._writer.close()

    async def flush(self) -> None:
        """After `end`: return once what was written has left, or cannot leave any more."""
        with suppress(OSError):
            await self._writer.wait_closed()


async def splice(one: ByteStream, other: ByteStream) -> bool:
    """Carry bytes both ways until both directions have ended; give both up if either fails.
    Whether both ended by themselves."""
    copying = [
        asyncio.ensure_future(copy_stream(one, other)),
        asyncio.ensure_future(copy_stream(other, one)),
    ]
    has_ended = False
    try:
        await asyncio.gather(*copying)
        has_ended = True
    except OSError:
        # Said by the result.
        pass
    finally:
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)
        if not has_ended:
            one.abort()
            other.abort()
    return has_ended


async def copy_stream(source: ByteStream, target: ByteStream) -> None:
    """Until the source has ended, and then the target. Raises OSError."""
    while data := await source.read():
        await target.write(data)
    await target.end()
