"""The wire is strict: what is not exactly a document is refused, and the error says where."""

import json

import pytest

from agents.contract.calls import AgentEvent, SyncRequest
from agents.contract.codec import decode, encode
from agents.contract.documents import (
    DesiredDocument,
    ObservedDocument,
    digest,
    read_desired,
    read_observed,
)
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.protocol import PROTOCOL
from tests.unit.agents.documents import a_desired, a_replica, an_observed


def on_the_wire(value):
    return json.loads(json.dumps(encode(value)))


def changed(data, path, value):
    """The data with `value` at the dotted path; the last name may be new."""
    *way, last = path.split(".")
    place = data
    for step in way:
        place = place[int(step) if isinstance(place, list) else step]
    place[int(last) if isinstance(place, list) else last] = value
    return data


def without(data, path):
    *way, last = path.split(".")
    place = data
    for step in way:
        place = place[int(step) if isinstance(place, list) else step]
    del place[last]
    return data


def refusal(read, data):
    with pytest.raises(ContractError) as caught:
        read(data)
    return caught.value


@pytest.mark.parametrize(
    ("read", "document"), [(read_desired, a_desired()), (read_observed, an_observed())]
)
def test_a_document_comes_back_as_it_went(read, document):
    assert read(on_the_wire(document)) == document


def test_a_sync_call_comes_back_as_it_went():
    event = AgentEvent(1, "slice.created", "2026-01-01T00:00:00Z", data={"gpu": "0"})
    call = SyncRequest(4, 2, "ab", an_observed(), (event,))
    assert decode(SyncRequest, on_the_wire(call)) == call


def test_what_may_be_left_out_gets_its_default():
    assert decode(DesiredDocument, {"node": "n-1"}) == DesiredDocument(node="n-1")
    assert decode(ObservedDocument, {"node": "n-1"}) == ObservedDocument(node="n-1")


@pytest.mark.parametrize(
    "path",
    [
        "colour",
        "gpus.0.colour",
        "slices.0.colour",
        "replicas.1.colour",
        "replicas.0.devices.0.colour",
        "replicas.0.rendezvous.colour",
    ],
)
def test_an_unknown_field_is_refused_where_it_stands(path):
    refused = refusal(read_desired, changed(on_the_wire(a_desired()), path, 1))
    assert (refused.code, refused.field) == (ContractErrorCode.UNKNOWN_FIELD, path)
    assert "colour" in refused.sentence


@pytest.mark.parametrize(
    "path",
    [
        "node",
        "gpus.0.uuid",
        "slices.0.gpu_uuid",
        "replicas.1.job",
        "replicas.0.devices.0.slice",
        "replicas.0.rendezvous.port",
    ],
)
def test_a_missing_field_is_refused_where_it_should_stand(path):
    refused = refusal(read_desired, without(on_the_wire(a_desired()), path))
    assert (refused.code, refused.field) == (ContractErrorCode.MISSING_FIELD, path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("revision", "3"),
        ("revision", 3.0),
        ("revision", True),
        ("revision", None),
        ("revision", -1),
        ("node", 5),
        ("node", ""),
        ("node", "../etc"),
        ("node", "n-1\n"),
        ("node", "n" * 65),
        ("allow_mass_removal", 1),
        ("gpus", {}),
        ("gpus", None),
        ("gpus.0", "GPU-1"),
        ("gpus.0.mode", "half"),
        ("gpus.0.mode", ["mig"]),
        ("slices.0.start", 64),
        ("slices.0.size", 0),
        ("replicas.0.command", "python train.py"),
        ("replicas.0.command.1", 7),
        ("replicas.0.env", []),
        ("replicas.0.env.SEED", 1),
        ("replicas.0.wish", "RUN"),
        ("replicas.0.devices.0.kind", None),
        ("replicas.0.rendezvous.port", 0),
        ("replicas.0.rendezvous.port", 65_536),
        ("replicas.0.rendezvous.peers.1", None),
        ("replicas.1.rendezvous", []),
    ],
)
def test_a_wrong_value_is_refused_where_it_stands(path, value):
    refused = refusal(read_desired, changed(on_the_wire(a_desired()), path, value))
    assert (refused.code, refused.field) == (ContractErrorCode.INVALID_FIELD, path)


@pytest.mark.parametrize("data", [None, [], "{}", 1, True])
def test_what_is_no_object_is_refused_as_a_whole(data):
    for read in (read_desired, read_observed):
        refused = refusal(read, data)
        assert (refused.code, refused.field) == (ContractErrorCode.INVALID_FIELD, "")
        assert "expected an object" in refused.sentence


def test_a_list_is_refused_when_it_is_too_long_and_the_error_says_how_long_it_may_be():
    data = on_the_wire(a_desired())
    words = refusal(read_desired, changed(data, "replicas.0.command", ["x"] * 1_025))
    assert (words.field, words.sentence) == ("replicas.0.command", "at most 1024 entries")
    # A list without a rule of its own has the general limit.
    many = refusal(read_desired, changed(on_the_wire(a_desired()), "unreadable", [""] * 4_097))
    assert (many.code, many.field) == (ContractErrorCode.INVALID_FIELD, "unreadable")
    assert many.sentence == "at most 4096 entries"


def test_a_newer_protocol_is_named_before_anything_else_is_read():
    data = on_the_wire(a_desired()) | {"protocol": PROTOCOL + 1, "colour": 1, "revision": "new"}
    for read in (read_desired, read_observed):
        refused = refusal(read, data)
        assert (refused.code, refused.field) == (ContractErrorCode.PROTOCOL_TOO_NEW, "protocol")
        assert refused.status == 426
        assert "update this side first" in refused.sentence


def test_an_older_protocol_than_is_spoken_is_refused():
    data = on_the_wire(a_desired()) | {"protocol": 0}
    assert refusal(read_desired, data).code is ContractErrorCode.PROTOCOL_TOO_OLD


@pytest.mark.parametrize("protocol", ["1", None, True, 1.0])
def test_a_protocol_that_is_no_number_is_refused(protocol):
    refused = refusal(read_desired, on_the_wire(a_desired()) | {"protocol": protocol})
    assert (refused.code, refused.field) == (ContractErrorCode.INVALID_FIELD, "protocol")


def test_a_document_does_not_guess_its_protocol():
    refused = refusal(read_desired, without(on_the_wire(a_desired()), "protocol"))
    assert refused.field == "protocol"


def test_a_refusal_tells_people_what_where_and_programs_the_code():
    refused = refusal(read_desired, changed(on_the_wire(a_desired()), "gpus.0.mode", "half"))
    assert str(refused) == (
        "invalid_field: 'half' is unknown: expected one of whole, mig, mps (gpus.0.mode)"
    )
    error = refused.body()["error"]
    assert (error["code"], error["field"]) == ("invalid_field", "gpus.0.mode")


def test_equal_documents_have_equal_digests_and_others_do_not():
    assert digest(a_desired()) == digest(read_desired(on_the_wire(a_desired())))
    assert digest(a_desired()) != digest(a_desired(revision=4))
    assert digest(a_replica(env={"A": "1", "B": "2"})) == digest(
        a_replica(env={"B": "2", "A": "1"})
    )
