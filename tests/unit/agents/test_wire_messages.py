"""A message crosses the wire whole, and one that a portal does not know stays its English."""

import tracemalloc

import pytest

from agents.combinations.sentences import without_nccl
from agents.combinations.shape import GangShape
from agents.contract.codec import decode, encode
from agents.contract.documents import ObservedReplica, SliceKind
from agents.contract.message import Message, render, verbatim
from agents.contract.shares import too_few_threads
from agents.contract.wire_messages import WireMessage, WirePart, from_wire, to_wire
from tests.support.chinese import in_chinese

NCCL = without_nccl(GangShape(frozenset((SliceKind.MIG,)), replicas=4))


def received(message: Message) -> Message:
    """The message as a portal has it."""
    replica = ObservedReplica("r", "j", sentence=message.text, message=to_wire(message))
    read = decode(ObservedReplica, encode(replica))
    return from_wire(read.message, read.sentence)


@pytest.mark.parametrize("message", [NCCL, too_few_threads(3, 4)])
def test_a_message_crosses_the_wire_whole(message):
    assert received(message).text == message.text
    assert render(received(message), in_chinese) == render(message, in_chinese) != message.text


def test_text_without_a_message_is_sent_as_a_sentence_alone():
    assert to_wire(verbatim("no space left on device")) is None
    assert received(verbatim("no space left on device")) == verbatim("no space left on device")
    assert "message" not in encode(ObservedReplica("r", "j", sentence="x"))


def test_a_sentence_that_a_newer_node_has_learned_is_shown_in_english():
    newer = Message("The %(part)s of GPU %(gpu)s is upside down", part=Message("fan"), gpu=3)
    assert received(newer).text == "The fan of GPU 3 is upside down"
    assert render(received(newer), in_chinese) == "The fan of GPU 3 is upside down"


@pytest.mark.parametrize(
    "wire",
    [
        WireMessage("of.a.newer_version", {"n": "3"}),
        WireMessage("quota.left", {}),
        WireMessage("%(n)s moons", {}),
        WireMessage("%(what)s", {}, (WirePart("what", "of.a.newer_version"),)),
        WireMessage("%(n)s" * 100, {"n": "x" * 100}),
        WireMessage(""),
        WireMessage("nothing"),
        WireMessage("%(n)s", {"n": " "}),
    ],
)
def test_a_message_that_makes_no_sense_here_is_the_sentence_that_came_with_it(wire):
    assert from_wire(wire, "100 % of it failed") == verbatim("100 % of it failed")


def test_a_key_of_a_node_is_no_format_with_a_width():
    """It would make a text of a billion spaces."""
    wire = WireMessage("%(n)999999999s", {"n": "x"})
    assert from_wire(wire, "x").text == "%(n)999999999s"


def test_a_message_that_repeats_itself_costs_no_memory():
    """200 times 200 times a word of a million letters."""
    huge = {"n": "x" * 1_000_000}
    parts = (WirePart("m", "%(n)s" * 200, huge),)
    tracemalloc.start()
    try:
        for wire in (WireMessage("%(n)s" * 200, huge), WireMessage("%(m)s" * 200, {}, parts)):
            assert from_wire(wire, "it failed") == verbatim("it failed")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
