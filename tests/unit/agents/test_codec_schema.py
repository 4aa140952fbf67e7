"""The published JSON schema says what the codec does: it allows what encode makes, and refuses
what decode refuses. One known difference: 3.0 is an integer to JSON schema, and not to the codec.
"""

import json

import pytest
from jsonschema import Draft202012Validator

from agents.contract.calls import AgentEvent, EventType, SyncRequest, SyncResponse
from agents.contract.codec import decode, encode, schema
from agents.contract.documents import DesiredDocument, ObservedDocument
from agents.contract.errors import ContractError
from tests.unit.agents.documents import a_desired, an_observed

EVENT = AgentEvent(1, EventType.SLICE_CREATED, "2026-01-01T00:00:00Z", data={"gpu": "0"})
WHOLE = [
    a_desired(),
    an_observed(),
    SyncRequest(4, 2, "ab", an_observed(), (EVENT,)),
    SyncRequest(4, 2, "ab"),
    SyncResponse(4, 1, 30, 3, False, "2026-01-01T00:00:00Z", a_desired()),
]
# One of each type that JSON knows, plus texts and numbers at the edges of the rules.
INTRUDERS = [None, True, -1, 0, 1 << 40, 0.5, "", "../x", "x" * 70_000, [], [None], {}, {"a": 1}]


def on_the_wire(value):
    return json.loads(json.dumps(encode(value)))


def is_decoded(kind, data):
    try:
        decode(kind, data)
    except ContractError:
        return False
    return True


def places(data, way=()):
    """The way to every value in the data."""
    yield way
    if isinstance(data, dict | list):
        items = data.items() if isinstance(data, dict) else enumerate(data)
        for step, value in items:
            yield from places(value, (*way, step))


def replaced(data, way, value):
    """A copy of the data with `value` at the end of the way."""
    if not way:
        return value
    step, *rest = way
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[step] = replaced(data[step], rest, value)
    return copy


def removals(data):
    for way in places(data):
        place = data
        for step in way:
            place = place[step]
        if isinstance(place, dict):
            for name in place:
                rest = {k: v for k, v in place.items() if k != name}
                yield (*way, name), replaced(data, way, rest)


def additions(data):
    for way in places(data):
        place = data
        for step in way:
            place = place[step]
        if isinstance(place, dict):
            yield way, replaced(data, way, place | {"colour": "red"})


@pytest.mark.parametrize("kind", [DesiredDocument, ObservedDocument, SyncRequest, SyncResponse])
def test_the_schema_itself_is_one(kind):
    Draft202012Validator.check_schema(schema(kind))
    assert schema(kind)["title"] == kind.__name__


@pytest.mark.parametrize("value", WHOLE, ids=lambda v: type(v).__name__)
def test_what_encode_makes_is_valid(value):
    Draft202012Validator(schema(type(value))).validate(on_the_wire(value))


@pytest.mark.parametrize(
    "value",
    # The last ones have the documents as parts.
    [*WHOLE[:2], *(pytest.param(v, marks=pytest.mark.slow) for v in WHOLE[2:])],
    ids=lambda v: type(v).__name__,
)
def test_schema_and_codec_agree_on_every_value_put_in_every_place(value):
    kind, data = type(value), on_the_wire(value)
    validator = Draft202012Validator(schema(kind))
    refused = 0
    for way in places(data):
        for intruder in INTRUDERS:
            other = replaced(data, way, intruder)
            assert validator.is_valid(other) == is_decoded(kind, other), (way, intruder)
            refused += not is_decoded(kind, other)
    assert refused > len(list(places(data)))


@pytest.mark.parametrize("value", WHOLE, ids=lambda v: type(v).__name__)
def test_schema_and_codec_agree_on_what_may_be_left_out_or_added(value):
    kind, data = type(value), on_the_wire(value)
    validator = Draft202012Validator(schema(kind))
    for way, other in [*removals(data), *additions(data)]:
        assert validator.is_valid(other) == is_decoded(kind, other), way


def test_a_rule_holds_at_its_edge_and_not_beyond():
    validator = Draft202012Validator(schema(DesiredDocument))
    data = on_the_wire(a_desired())
    port = ("replicas", 0, "rendezvous", "port")
    words = ("replicas", 0, "command")
    for way, inside, beyond in [
        (port, 1, 0),
        (port, 65_535, 65_536),
        (("slices", 0, "start"), 63, 64),
        (("node",), "n" * 64, "n" * 65),
        (words, ["x"] * 1_024, ["x"] * 1_025),
    ]:
        for value, allowed in ((inside, True), (beyond, False)):
            other = replaced(data, way, value)
            assert validator.is_valid(other) is is_decoded(DesiredDocument, other) is allowed
