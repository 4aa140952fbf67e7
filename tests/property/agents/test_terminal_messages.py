"""Messages of terminals, however the stream cuts them, and garbage."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.contract.terminal import (
    MAX_PAYLOAD_BYTES,
    MessageReader,
    MessageRefused,
    MessageType,
    TerminalEnd,
    TerminalMessage,
    end_message,
    input_messages,
    read_end,
    read_size,
    resize_message,
)


def a_message():
    texts = st.binary(min_size=1, max_size=50)
    return st.one_of(
        st.builds(TerminalMessage, st.just(MessageType.INPUT), texts),
        st.builds(TerminalMessage, st.just(MessageType.OUTPUT), texts),
        st.builds(TerminalMessage, st.just(MessageType.RESIZE), st.binary(min_size=4, max_size=4)),
        st.builds(TerminalMessage, st.just(MessageType.BEGUN), st.binary(min_size=8, max_size=8)),
        st.just(TerminalMessage(MessageType.HANG_UP)),
    )


@given(st.lists(a_message(), max_size=20), st.lists(st.integers(0, 400), max_size=10))
def test_messages_come_out_as_they_went_in(messages, cuts):
    data = b"".join(message.to_bytes() for message in messages)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader, read = MessageReader(), []
    for begin, end in itertools.pairwise(places):
        read += reader.feed(data[begin:end])
    assert read == messages


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_read_and_never_kept_without_bound(data):
    reader = MessageReader()
    try:
        for message in reader.feed(data):
            assert len(message.payload) <= MAX_PAYLOAD_BYTES
    except MessageRefused:
        return


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x01x",
        b"\x07\x00\x01x",
        b"\x01\x00\x00",
        b"\x01" + (MAX_PAYLOAD_BYTES + 1).to_bytes(2),
        b"\x02\x00\x03",
        b"\x03\x00\x01",
        b"\x04\x00\x07",
        b"\x06\x00\x00",
        b"\x06\x00\x41",
    ],
)
def test_what_is_no_message_is_refused_before_it_is_whole(data):
    with pytest.raises(MessageRefused):
        MessageReader().feed(data)


@given(st.binary(max_size=3 * MAX_PAYLOAD_BYTES))
def test_what_is_typed_is_cut_into_messages_and_whole(data):
    messages = MessageReader().feed(input_messages(data))
    assert b"".join(message.payload for message in messages) == data


@given(st.integers(-5, 70_000), st.integers(-5, 70_000))
def test_a_screen_of_any_size_is_sent_as_one_that_is_taken(columns, rows):
    (message,) = MessageReader().feed(resize_message(columns, rows))
    sides = read_size(message.payload)
    assert all(1 <= side <= 1_000 for side in sides)


def test_ends_are_read_and_a_later_reason_is_an_exit():
    (message,) = MessageReader().feed(end_message(TerminalEnd.IDLE, 300))
    assert read_end(message.payload) == (TerminalEnd.IDLE, 300 & 0xFF)
    assert read_end(b"\x05of a later version") == (TerminalEnd.EXITED, 5)
    with pytest.raises(MessageRefused):
        read_size(b"\0\0\0\x01")
