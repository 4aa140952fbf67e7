"""Many streams in one sequence of frames: pure, and the same on both sides of a tunnel.

Frames come in by `receive` and go out by `next_frame`; nothing here waits, sends or has a clock.
What a stream receives is bounded by what this side has allowed (its window), what it sends by what
the peer has: a stream whose reader is slow stalls alone.
"""

from collections import deque
from dataclasses import dataclass, field

from agents.contract.tunnel import (
    MAX_DATA_BYTES,
    MAX_STREAM_ID,
    MAX_STREAMS,
    Frame,
    FrameRefused,
    FrameType,
    StreamRefusal,
    read_frame,
)

# What a stream may receive before it is read: the least and the most.
MIN_WINDOW_BYTES, MAX_WINDOW_BYTES = 16 << 10, 256 << 10
# Of what all streams may receive, a new one gets the least and a sixteenth of what is left: so the
# budget holds for as many as may be open.
SHARE_OF_REST = 16
# A peer that has allowed so many bytes has miscounted.
MAX_CREDIT_BYTES = 1 << 31


@dataclass(frozen=True, slots=True)
class TunnelBounds:
    """How much one side of a tunnel ever keeps."""

    streams: int = MAX_STREAMS
    budget_bytes: int = 48 << 20
    """What all streams together may receive before it is read."""

    @property
    def control_frames(self) -> int:
        """Frames other than data that wait to be sent. A peer that opens and closes streams and
        never reads would let them grow."""
        return 4 * self.streams


NODE_BOUNDS = TunnelBounds()


class StreamsExhausted(Exception):
    """The tunnel has as many streams as it may have, or its ids are used up."""


@dataclass(slots=True, eq=False)
class MultiplexedStream:
    """One stream, as one side sees it."""

    id: int
    is_opened: bool = False
    """Both sides are connected."""
    received: bytearray = field(default_factory=bytearray)
    window: int = 0
    """How many bytes the peer may still send."""
    size: int = 0
    """Of the window; 0 until one was allowed."""
    taken: int = 0
    """Bytes that were read since the window was last widened."""
    credit: int = 0
    """How many bytes this side may still send."""
    pending: bytes = b""
    """The next data frame's bytes, at most MAX_DATA_BYTES."""
    wants_end: bool = False
    has_sent_end: bool = False
    has_received_end: bool = False
    is_reset: bool = False
    """It ended before its time: refused, given up, or with its tunnel."""

    @property
    def has_ended(self) -> bool:
        """Both sides have said all that they had to say, and it was read here. This side's end may
        still wait to be sent."""
        return self.wants_end and self.has_received_end and not self.received

    @property
    def is_over(self) -> bool:
        return self.is_reset or (self.has_ended and self.has_sent_end)


class Multiplexer:
    """One side of a tunnel. `is_opener`: it is the side that opens streams."""

    def __init__(self, *, is_opener: bool, bounds: TunnelBounds = NODE_BOUNDS) -> None:
        self.is_opener = is_opener
        self.bounds = bounds
        self._streams: dict[int, MultiplexedStream] = {}
        # The highest id that was opened. Ids up to it that are no stream are streams of the past.
        self._last_id = 0
        self._control: deque[Frame] = deque()
        # Streams whose window is to be widened, and those that have data or an end to send: in
        # the order in which their turn comes.
        self._to_widen: dict[int, MultiplexedStream] = {}
        self._to_send: deque[MultiplexedStream] = deque()
        # Bytes allowed to streams beyond MIN_WINDOW_BYTES each.
        self._lent = 0

    @property
    def stream_count(self) -> int:
        return len(self._streams)

    def close(self) -> None:
        """The tunnel is over, and every stream with it."""
        for stream in tuple(self._streams.values()):
            self._forget(stream)

    def open(self, target: bytes) -> MultiplexedStream:
        """`target`: what OPEN carries. Raises StreamsExhausted."""
        if len(self._streams) >= self.bounds.streams or self._last_id >= MAX_STREAM_ID:
            raise StreamsExhausted
        stream = self._add(self._last_id + 1)
        self._control.append(Frame(FrameType.OPEN, stream.id, target))
        self._allow_first(stream)
        return stream

    def accept(self, stream: MultiplexedStream) -> None:
        """Answer OPEN; no effect if the stream was given up meanwhile."""
        if not stream.is_reset:
            stream.is_opened = True
            self._control.append(Frame(FrameType.OPENED, stream.id))
            self._allow_first(stream)

    def refuse(self, stream: MultiplexedStream, why: StreamRefusal) -> None:
        if not stream.is_reset:
            self._forget(stream)
            self._control.append(Frame(FrameType.REFUSED, stream.id, why.encode()))

    def send(self, stream: MultiplexedStream, data: bytes | memoryview) -> int:
        """Take the first bytes of the data, as many as the peer allows and one frame carries.
        Returns how many; 0: try again after a frame of the stream has come or gone."""
        if stream.pending or stream.is_reset or stream.wants_end:
            return 0
        count = min(len(data), stream.credit, MAX_DATA_BYTES)
        if count:
            stream.pending = bytes(data[:count])
            stream.credit -= count
            self._to_send.append(stream)
        return count

    def end(self, stream: MultiplexedStream) -> None:
        """No more data from this side, after what is pending. The stream is open by then."""
        if not stream.wants_end and not stream.is_reset:
            stream.wants_end = True
            if not stream.pending:
                self._to_send.append(stream)

    def reset(self, stream: MultiplexedStream) -> None:
        """Give the stream up; no effect once both directions have ended."""
        if stream.id in self._streams and not stream.has_ended:
            self._forget(stream)
            self._control.append(Frame(FrameType.RESET, stream.id))

    def take(self, stream: MultiplexedStream) -> bytes:
        """What the stream has received; the peer may then send as much again."""
        data = bytes(stream.received)
        stream.received.clear()
        stream.taken += len(data)
        is_over = stream.is_reset or stream.has_received_end
        if not is_over and stream.taken * 2 >= stream.size > 0:
            self._to_widen[stream.id] = stream
        self._forget_if_over(stream)
        return data

    def receive(self, message: bytes) -> tuple[FrameType, MultiplexedStream, bytes] | None:
        """What one message changed: its frame's type, stream and payload. None if it is about a
        stream of the past. Raises FrameRefused."""
        frame = read_frame(message)
        if len(self._control) > self.bounds.control_frames:
            raise FrameRefused("the peer does not read")
        if frame.type is FrameType.OPEN:
            return self._receive_open(frame)
        stream = self._streams.get(frame.stream)
        if stream is None:
            if not 0 < frame.stream <= self._last_id:
                raise FrameRefused(f"{frame.type.name} for stream {frame.stream}: never opened")
            return None
        match frame.type:
            case FrameType.OPENED | FrameType.REFUSED:
                self._receive_answer(stream, frame)
            case FrameType.DATA:
                self._receive_data(stream, frame.payload)
            case FrameType.WINDOW:
                self._receive_window(stream, int.from_bytes(frame.payload))
            case FrameType.END:
                if stream.has_received_end or not stream.is_opened:
                    raise FrameRefused(f"END for stream {stream.id}, which has none to come")
                stream.has_received_end = True
                self._forget_if_over(stream)
            case FrameType.RESET:
                self._forget(stream)
        return frame.type, stream, frame.payload

    def next_frame(self) -> tuple[bytes, MultiplexedStream | None] | None:
        """The next message to send, with the stream that may send more once it is gone. None if
        there is nothing to send now."""
        if self._control:
            return self._control.popleft().to_bytes(), None
        while self._to_widen:
            stream = self._to_widen.pop(next(iter(self._to_widen)))
            if not stream.is_reset and not stream.has_received_end:
                return self._widen(stream).to_bytes(), None
        while self._to_send:
            stream = self._to_send.popleft()
            if stream.is_reset:
                continue
            if stream.pending:
                frame = Frame(FrameType.DATA, stream.id, stream.pending)
                stream.pending = b""
                if stream.wants_end:
                    self._to_send.append(stream)
                return frame.to_bytes(), stream
            stream.has_sent_end = True
            self._forget_if_over(stream)
            return Frame(FrameType.END, stream.id).to_bytes(), stream
        return None

    def _add(self, stream_id: int) -> MultiplexedStream:
        stream = self._streams[stream_id] = MultiplexedStream(stream_id)
        self._last_id = stream_id
        return stream

    def _allow_first(self, stream: MultiplexedStream) -> None:
        least = self.bounds.streams * MIN_WINDOW_BYTES
        rest = self.bounds.budget_bytes - least - self._lent
        more = min(MAX_WINDOW_BYTES - MIN_WINDOW_BYTES, rest // SHARE_OF_REST)
        self._lent += more
        stream.size = stream.window = MIN_WINDOW_BYTES + more
        self._control.append(Frame(FrameType.WINDOW, stream.id, stream.size.to_bytes(4)))

    def _widen(self, stream: MultiplexedStream) -> Frame:
        count, stream.taken = stream.taken, 0
        stream.window += count
        return Frame(FrameType.WINDOW, stream.id, count.to_bytes(4))

    def _receive_open(self, frame: Frame) -> tuple[FrameType, MultiplexedStream, bytes] | None:
        if self.is_opener or frame.stream <= self._last_id:
            raise FrameRefused(f"OPEN for stream {frame.stream}")
        if len(self._streams) >= self.bounds.streams:
            self._last_id = frame.stream
            why = StreamRefusal.TOO_MANY_STREAMS.encode()
            self._control.append(Frame(FrameType.REFUSED, frame.stream, why))
            return None
        return frame.type, self._add(frame.stream), frame.payload

    def _receive_answer(self, stream: MultiplexedStream, frame: Frame) -> None:
        if not self.is_opener or stream.is_opened:
            raise FrameRefused(f"{frame.type.name} for stream {stream.id}, which awaits none")
        if frame.type is FrameType.OPENED:
            stream.is_opened = True
        else:
            self._forget(stream)

    def _receive_data(self, stream: MultiplexedStream, data: bytes) -> None:
        if stream.has_received_end or not stream.is_opened:
            raise FrameRefused(f"data for stream {stream.id}, which has none to come")
        if len(data) > stream.window:
            raise FrameRefused(f"data for stream {stream.id} beyond its window")
        stream.window -= len(data)
        stream.received += data

    def _receive_window(self, stream: MultiplexedStream, count: int) -> None:
        stream.credit += count
        if not 0 < count <= stream.credit <= MAX_CREDIT_BYTES:
            raise FrameRefused(f"a window of {count} bytes for stream {stream.id}")

    def _forget_if_over(self, stream: MultiplexedStream) -> None:
        if stream.is_over:
            self._drop(stream)

    def _forget(self, stream: MultiplexedStream) -> None:
        """It ends at once: what it has received and not given to its reader is gone."""
        stream.is_reset = True
        stream.received.clear()
        stream.pending = b""
        self._drop(stream)

    def _drop(self, stream: MultiplexedStream) -> None:
        if self._streams.pop(stream.id, None) is not None and stream.size:
            self._lent -= stream.size - MIN_WINDOW_BYTES
        self._to_widen.pop(stream.id, None)
