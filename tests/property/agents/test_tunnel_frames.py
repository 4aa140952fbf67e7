"""Streams of a tunnel under any interleaving: order, completeness, windows, and garbage."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.contract.tunnel import (
    MAX_FRAME_BYTES,
    MAX_STREAMS,
    Frame,
    FrameRefused,
    FrameType,
    StreamRefusal,
    read_frame,
)
from agents.tunnel.multiplexer import (
    MAX_WINDOW_BYTES,
    NODE_BOUNDS,
    Multiplexer,
    StreamsExhausted,
)

PORTAL, AGENT = 0, 1
TARGET = b'{"attempt":1,"rank":0,"port":80}'


class Wire:
    """Both sides of a tunnel, the frames on their way, and what each stream was given and gave."""

    def __init__(self):
        self.sides = (Multiplexer(is_opener=True), Multiplexer(is_opener=False))
        # By side, messages that it has sent.
        self.sent = (deque(), deque())
        # By stream's number, its two ends; the agent's is None until OPEN has arrived.
        self.streams = []
        self.written, self.read = {}, {}

    def open(self):
        self.streams.append([self.sides[PORTAL].open(TARGET), None])
        number = len(self.streams) - 1
        for side in (PORTAL, AGENT):
            self.written[number, side], self.read[number, side] = bytearray(), bytearray()

    def put_on_wire(self, side):
        following = self.sides[side].next_frame()
        if following is not None:
            self.sent[side].append(following[0])
        return following is not None

    def deliver(self, side):
        """The oldest message that this side has sent."""
        if not self.sent[side]:
            return False
        change = self.sides[1 - side].receive(self.sent[side].popleft())
        if change is not None and change[0] is FrameType.OPEN:
            self.streams[change[1].id - 1][AGENT] = change[1]
            assert change[2] == TARGET
        return True

    def accept(self, number):
        stream = self.streams[number][AGENT]
        if stream is not None and not stream.is_opened:
            self.sides[AGENT].accept(stream)

    def write(self, number, side, data):
        stream = self.streams[number][side]
        if stream is not None and stream.is_opened:
            count = self.sides[side].send(stream, data)
            self.written[number, side] += data[:count]

    def take(self, number, side):
        stream = self.streams[number][side]
        if stream is not None:
            self.read[number, side] += self.sides[side].take(stream)

    def end(self, number, side):
        stream = self.streams[number][side]
        if stream is not None and stream.is_opened:
            self.sides[side].end(stream)

    def require_windows(self):
        for ends in self.streams:
            for stream in ends:
                if stream is not None:
                    assert len(stream.received) + stream.window <= max(stream.size, 0)
                    assert len(stream.received) <= MAX_WINDOW_BYTES

    def run_out(self):
        """Everything that is under way arrives and is read."""
        is_moving = True
        while is_moving:
            is_moving = False
            for side in (PORTAL, AGENT):
                is_moving |= self.put_on_wire(side) or self.deliver(side)
                for number in range(len(self.streams)):
                    self.take(number, side)


numbers = st.integers(0, 3)
sides = st.sampled_from((PORTAL, AGENT))
steps = st.one_of(
    st.tuples(st.just("open")),
    st.tuples(st.just("accept"), numbers),
    st.tuples(st.just("write"), numbers, sides, st.integers(1, 70_000), st.integers(0, 255)),
    st.tuples(st.just("take"), numbers, sides),
    st.tuples(st.just("end"), numbers, sides),
    st.tuples(st.just("put_on_wire"), sides),
    st.tuples(st.just("deliver"), sides),
)


def play(wire, step):
    name, *values = step
    if name == "open":
        if len(wire.streams) < 4:
            wire.open()
        return
    if name in ("put_on_wire", "deliver"):
        getattr(wire, name)(*values)
        return
    if values[0] >= len(wire.streams):
        return
    if name == "write":
        number, side, size, seed = values
        # Told apart by where they are.
        data = bytes((seed + at * 7) % 251 for at in range(min(size, 300))) * (size // 300 + 1)
        wire.write(number, side, data[:size])
        return
    getattr(wire, name)(*values)


@given(st.lists(steps, min_size=10, max_size=120))
def test_any_interleaving_delivers_each_streams_bytes_in_order_and_complete(trace):
    wire = Wire()
    for step in trace:
        play(wire, step)
        wire.require_windows()
    wire.run_out()
    for number in range(len(wire.streams)):
        wire.accept(number)
    wire.run_out()
    wire.require_windows()
    for number in range(len(wire.streams)):
        for side in (PORTAL, AGENT):
            assert wire.read[number, 1 - side] == wire.written[number, side]
    for side in (PORTAL, AGENT):
        for number in range(len(wire.streams)):
            wire.end(number, side)
    wire.run_out()
    assert [side.stream_count for side in wire.sides] == [0, 0]


@given(st.lists(st.tuples(numbers, st.booleans()), max_size=12), st.integers(0, 30))
def test_streams_that_are_refused_or_given_up_leave_nothing(ends, delivered):
    wire = Wire()
    for _ in range(4):
        wire.open()
    for _ in range(delivered):
        wire.put_on_wire(PORTAL)
        wire.deliver(PORTAL)
    for number, is_by_portal in ends:
        portal, agent = wire.streams[number]
        if is_by_portal:
            wire.sides[PORTAL].reset(portal)
        elif agent is not None and not agent.is_opened:
            wire.sides[AGENT].refuse(agent, StreamRefusal.PORT_CLOSED)
    wire.run_out()
    over = {number for number, _ in ends if wire.streams[number][PORTAL].is_reset}
    assert wire.sides[PORTAL].stream_count == 4 - len(over)
    assert wire.sides[AGENT].stream_count == 4 - len(over)


def two_open_streams():
    wire = Wire()
    for number in (0, 1):
        wire.open()
        wire.run_out()
        wire.accept(number)
    wire.run_out()
    return wire


def test_a_slow_reader_holds_its_window_and_stalls_no_other_stream():
    wire = two_open_streams()
    stalled = wire.streams[0][AGENT]
    sent = 0
    while wire.sides[PORTAL].send(wire.streams[0][PORTAL], b"s" * 30_000):
        while wire.put_on_wire(PORTAL) and wire.deliver(PORTAL):
            pass
    assert len(stalled.received) == stalled.size
    while sent < 3_000_000:
        wire.write(1, PORTAL, b"q" * 30_000)
        sent = len(wire.written[1, PORTAL])
        for side in (PORTAL, AGENT):
            while wire.put_on_wire(side) and wire.deliver(side):
                pass
        wire.take(1, AGENT)
        wire.require_windows()
    assert wire.read[1, AGENT] == wire.written[1, PORTAL]
    assert len(stalled.received) == stalled.size


def test_a_stream_after_many_others_has_the_window_of_the_first():
    wire = two_open_streams()
    for number in range(2, 300):
        wire.open()
        wire.run_out()
        wire.accept(number)
        wire.run_out()
        wire.sides[number % 2].reset(wire.streams[number][number % 2])
        wire.run_out()
    assert wire.streams[-1][AGENT].size == wire.streams[-1][PORTAL].size == MAX_WINDOW_BYTES


def test_streams_that_have_bytes_take_turns():
    wire = two_open_streams()
    for number in (0, 1):
        wire.write(number, PORTAL, b"x" * 10_000)
    order = []
    for _ in range(6):
        message, stream = wire.sides[PORTAL].next_frame()
        order.append(read_frame(message).stream)
        wire.sides[PORTAL].send(stream, b"x" * 10_000)
    assert order == [1, 2] * 3


def test_all_streams_together_stay_within_the_budget():
    portal, agent = Multiplexer(is_opener=True), Multiplexer(is_opener=False)
    sizes = []
    for _ in range(MAX_STREAMS):
        portal.open(TARGET)
        while (following := portal.next_frame()) is not None:
            change = agent.receive(following[0])
            if change[0] is FrameType.OPEN:
                agent.accept(change[1])
                sizes.append(change[1].size)
        while agent.next_frame() is not None:
            pass
    assert sizes[0] == MAX_WINDOW_BYTES and min(sizes) > 0
    assert sum(sizes) <= NODE_BOUNDS.budget_bytes
    with pytest.raises(StreamsExhausted):
        portal.open(TARGET)
    extra = Frame(FrameType.OPEN, MAX_STREAMS + 1, TARGET).to_bytes()
    assert agent.receive(extra) is None
    assert read_frame(agent.next_frame()[0]).payload == b"too_many_streams"


frames = st.builds(
    lambda kind, stream, payload: bytes([kind]) + stream.to_bytes(4) + payload,
    st.integers(0, 9),
    st.integers(0, 6),
    st.one_of(st.binary(max_size=12), st.just(TARGET), st.just(bytes(40_000))),
)


@given(st.lists(st.one_of(frames, st.binary(max_size=40)), max_size=40))
def test_garbage_is_refused_and_never_kept(messages):
    wire = two_open_streams()
    agent = wire.sides[AGENT]
    for message in messages:
        try:
            change = agent.receive(message)
        except FrameRefused as refused:
            assert str(refused)
            break
        if change is not None and change[0] is FrameType.OPEN:
            agent.accept(change[1])
            wire.streams.append([None, change[1]])
        wire.require_windows()
    assert len(wire.streams) <= len(messages) + 2


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x04\0\0\0\1",
        b"\x63\0\0\0\1",
        bytes(MAX_FRAME_BYTES + 1),
        Frame(FrameType.DATA, 99, b"x").to_bytes(),
        Frame(FrameType.OPEN, 1, TARGET).to_bytes(),
        Frame(FrameType.OPENED, 1).to_bytes(),
        Frame(FrameType.WINDOW, 1, bytes(4)).to_bytes(),
        Frame(FrameType.WINDOW, 1, b"\xff\xff\xff\xff").to_bytes(),
    ],
)
def test_an_agent_refuses_a_frame_that_makes_no_sense(message):
    agent = two_open_streams().sides[AGENT]
    with pytest.raises(FrameRefused):
        agent.receive(message)


def test_data_beyond_the_window_is_refused():
    wire = two_open_streams()
    data = Frame(FrameType.DATA, 1, bytes(30_000)).to_bytes()
    with pytest.raises(FrameRefused, match="beyond its window"):
        for _ in range(MAX_WINDOW_BYTES // 30_000 + 1):
            wire.sides[AGENT].receive(data)


def test_a_peer_that_opens_and_never_reads_is_refused():
    agent = Multiplexer(is_opener=False)
    with pytest.raises(FrameRefused, match="does not read"):
        for number in range(1, 10_000):
            _, stream, _ = agent.receive(Frame(FrameType.OPEN, number, TARGET).to_bytes())
            agent.refuse(stream, StreamRefusal.FAILED)
