"""Streams over a socket of messages: what waits around a multiplexer, the same on both sides."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from agents.contract.tunnel import (
    PROTOCOL_ERROR,
    FrameRefused,
    FrameType,
    StreamRefusal,
    read_refusal,
)
from agents.tunnel.multiplexer import (
    NODE_BOUNDS,
    MultiplexedStream,
    Multiplexer,
    StreamsExhausted,
    TunnelBounds,
)

# How long a peer may take to hear of the end. One that reads nothing never does.
CLOSE_SECONDS = 2.0

log = logging.getLogger("agents.tunnel.link")


class SocketClosed(ConnectionError):
    """The socket is closed, by either side or by the network."""


class MessageSocket(Protocol):
    """A WebSocket, of either side. Each call raises SocketClosed."""

    async def send(self, message: bytes) -> None:
        """Returns once there is room for the next message."""

    async def receive(self) -> bytes: ...

    async def close(self, code: int, reason: str) -> None: ...


class StreamReset(ConnectionResetError):
    """The stream was given up by the other side, or ended with its tunnel."""


class OpenRefused(Exception):
    """The other side did not open the stream."""

    def __init__(self, why: StreamRefusal) -> None:
        super().__init__(str(why))
        self.why = why


class TunnelStream:
    """Bytes in both directions. One task may read while another one writes."""

    def __init__(self, link: "TunnelLink", stream: MultiplexedStream) -> None:
        self._link = link
        self._stream = stream
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        """The next bytes, as many as have arrived; b"" at the end. Raises StreamReset."""
        stream = self._stream
        while True:
            if data := self._link.take(stream):
                return data
            if stream.is_reset:
                raise StreamReset
            if stream.has_received_end:
                return b""
            await self._wait()

    async def write(self, data: bytes) -> None:
        """Returns once the other side has room for all of it. Raises StreamReset."""
        left = memoryview(data)
        while left:
            if self._stream.is_reset:
                raise StreamReset
            count = self._link.send(self._stream, left)
            left = left[count:]
            if left and not count:
                await self._wait()

    async def end(self) -> None:
        """No more data from this side. Raises StreamReset."""
        if self._stream.is_reset:
            raise StreamReset
        self._link.end(self._stream)

    def abort(self) -> None:
        """Give it up; what was written may be lost. No effect once both directions have ended."""
        self._link.reset(self._stream)
        self.wake()

    async def opened(self) -> None:
        """Wait until it is open. Raises StreamReset."""
        while not self._stream.is_opened:
            if self._stream.is_reset:
                raise StreamReset
            await self._wait()

    def wake(self) -> None:
        """Readers and writers look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self) -> None:
        # Whoever waits has this event: a reader cannot swallow what wakes the writer.
        await self._changed.wait()


# Connects a stream that the other side opens: `accept` or `refuse` it, then carry its bytes.
Serve = Callable[["IncomingStream"], Awaitable[None]]


class IncomingStream(TunnelStream):
    """A stream that the other side wants to open, with its target as OPEN carries it."""

    def __init__(self, link: "TunnelLink", stream: MultiplexedStream, target: bytes) -> None:
        super().__init__(link, stream)
        self.target = target

    def accept(self) -> None:
        self._link.accept(self._stream)

    def refuse(self, why: StreamRefusal) -> None:
        self._link.refuse(self._stream, why)


class TunnelLink:
    """One side of a tunnel, from when its socket is open until it closes."""

    def __init__(
        self,
        socket: MessageSocket,
        serve: Serve | None = None,
        bounds: TunnelBounds = NODE_BOUNDS,
    ) -> None:
        """`serve`: for the side that opens no streams."""
        self._socket = socket
        self._serve = serve
        self._multiplexer = Multiplexer(is_opener=serve is None, bounds=bounds)
        self._streams: dict[MultiplexedStream, TunnelStream] = {}
        self._refusals: dict[MultiplexedStream, StreamRefusal] = {}
        self._serving: dict[MultiplexedStream, asyncio.Task[None]] = {}
        self._has_frames = asyncio.Event()
        self.is_closed = False

    @property
    def stream_count(self) -> int:
        return self._multiplexer.stream_count

    async def run(self) -> None:
        """Carry frames until the socket closes, or the peer breaks the protocol; then every stream
        is over."""
        tasks = {asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._send())}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with suppress(SocketClosed):
                    task.result()
        finally:
            tasks |= set(self._serving.values())
            for task in tasks:
                task.cancel()
            self._end_streams()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self, code: int, reason: str) -> None:
        """End every stream at once, whatever the peer does, then close the socket. `run` returns
        with the socket's end."""
        self._end_streams()
        with suppress(SocketClosed, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._socket.close(code, reason)

    def _end_streams(self) -> None:
        self.is_closed = True
        self._multiplexer.close()
        for open_stream in tuple(self._streams.values()):
            open_stream.wake()
        self._streams.clear()

    async def open(self, target: bytes) -> TunnelStream:
        """Raises OpenRefused, and StreamReset if the tunnel ends meanwhile."""
        if self.is_closed:
            raise StreamReset
        try:
            stream = self._multiplexer.open(target)
        except StreamsExhausted:
            raise OpenRefused(StreamRefusal.TOO_MANY_STREAMS) from None
        opening = self._streams[stream] = TunnelStream(self, stream)
        self._has_frames.set()
        try:
            await opening.opened()
        except StreamReset:
            if why := self._refusals.pop(stream, None):
                raise OpenRefused(why) from None
            raise
        except BaseException:
            opening.abort()
            raise
        return opening

    # What streams call; each leaves frames for `_send`.

    def take(self, stream: MultiplexedStream) -> bytes:
        data = self._multiplexer.take(stream)
        self._after(stream)
        return data

    def send(self, stream: MultiplexedStream, data: memoryview) -> int:
        count = self._multiplexer.send(stream, data)
        self._after(stream)
        return count

    def end(self, stream: MultiplexedStream) -> None:
        self._multiplexer.end(stream)
        self._after(stream)

    def reset(self, stream: MultiplexedStream) -> None:
        self._multiplexer.reset(stream)
        self._after(stream)

    def accept(self, stream: MultiplexedStream) -> None:
        self._multiplexer.accept(stream)
        self._after(stream)

    def refuse(self, stream: MultiplexedStream, why: StreamRefusal) -> None:
        self._multiplexer.refuse(stream, why)
        self._after(stream)

    def _after(self, stream: MultiplexedStream) -> None:
        self._has_frames.set()
        if stream.is_over:
            self._streams.pop(stream, None)

    async def _receive(self) -> None:
        while True:
            message = await self._socket.receive()
            if self.is_closed:
                # Read, so that the end of the socket is seen, and not carried any more.
                continue
            try:
                change = self._multiplexer.receive(message)
            except FrameRefused as refused:
                log.warning("tunnel_broken", extra={"why": str(refused)})
                await self.close(PROTOCOL_ERROR, str(refused))
                return
            # A stream too many was refused; what else is of streams of the past needs no answer.
            self._has_frames.set()
            if change is not None:
                self._react(*change)

    def _react(self, kind: FrameType, stream: MultiplexedStream, payload: bytes) -> None:
        if kind is FrameType.OPEN:
            self._begin_serving(stream, payload)
            return
        if kind is FrameType.REFUSED:
            self._refusals[stream] = read_refusal(payload)
        if stream.is_reset and (serving := self._serving.get(stream)):
            serving.cancel()
        open_stream = self._streams.get(stream)
        self._after(stream)
        if open_stream:
            open_stream.wake()

    def _begin_serving(self, stream: MultiplexedStream, target: bytes) -> None:
        incoming = IncomingStream(self, stream, target)
        self._streams[stream] = incoming
        task = self._serving[stream] = asyncio.ensure_future(self._served(incoming))
        task.add_done_callback(lambda _: self._serving.pop(stream, None))

    async def _served(self, incoming: IncomingStream) -> None:
        if self._serve is None:
            raise AssertionError("this side opens the streams")
        try:
            await self._serve(incoming)
        except Exception:
            log.exception("stream_failed")
        finally:
            # No effect on one that was carried to its end.
            incoming.abort()

    async def _send(self) -> None:
        while True:
            # Before the look, so that a frame that comes after it is not missed.
            self._has_frames.clear()
            following = self._multiplexer.next_frame()
            if following is None:
                await self._has_frames.wait()
                continue
            message, stream = following
            await self._socket.send(message)
            if stream is not None and (writer := self._streams.get(stream)):
                writer.wake()
                if stream.is_over:
                    self._streams.pop(stream, None)
