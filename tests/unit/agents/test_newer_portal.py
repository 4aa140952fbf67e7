"""A portal that is newer than this agent: what the agent does not know stops that work alone."""

import asyncio
import json

import httpx
import pytest

from agents.contract.calls import SyncResponse
from agents.contract.codec import encode
from agents.contract.documents import (
    DesiredDocument,
    DesiredReplica,
    DesiredReplicaState,
    read_desired,
)
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.launcher_names import LauncherName
from agents.contract.newer_documents import read_newer_desired
from agents.portal.client import PortalClient
from agents.route.portal_route import PortalRoute
from agents.runtime.base import ContainerPhase
from tests.unit.agents.documents import a_desired, a_replica
from tests.unit.agents.nodes import a_document, obey, on_it

# What no agent of today knows, as a newer portal would write it.
STRANGE = {
    "a launcher": {"launcher": "rocket"},
    "a backend": {"backend": "mpi"},
    "a field": {"secrets": ["token"]},
    "a value out of range": {"processes": 4_096},
    "a kind of device": {"devices": [{"allocation": "a", "slice": "s", "kind": "npu"}]},
}


def on_the_wire(document=None):
    return json.loads(json.dumps(encode(document or a_desired())))


def plain(**fields):
    return a_replica(**{"devices": (), "processes": 1, "launcher": "none"} | fields)


def two_replicas(strange, **fields):
    """The document of a portal in which the second of two replicas is of a newer kind."""
    replicas = (plain(id="r-1", job="j-1"), plain(id="r-2", job="j-2", **fields))
    data = on_the_wire(DesiredDocument("n-1", 1, replicas=replicas))
    data["replicas"][1] |= strange
    return read_newer_desired(data)


def failures(machine):
    reported = machine.reported[-1].replicas
    return {r.id: (r.code, r.sentence) for r in reported if r.code}


@pytest.mark.parametrize("document", [a_desired(), DesiredDocument("n-1")])
def test_a_document_of_today_is_read_as_ever(document):
    assert read_newer_desired(on_the_wire(document)) == read_desired(on_the_wire(document))


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_a_replica_of_a_newer_kind_is_refused_and_the_others_run(machine, strange):
    node = machine.agent()
    obey(node, two_replicas(strange))
    assert [story[:2] for story in machine.runtime.story] == [("prepare", "r-1"), ("start", "r-1")]
    code, sentence = failures(machine)["r-2"]
    assert code == "unreadable"
    assert "agent is older than the portal" in sentence and next(iter(strange)) in sentence
    (event,) = [e for e in machine.journal.unsent_events() if e.type == "replica.refused"]
    assert event.replica == "r-2"


def test_the_refusal_names_the_launcher_and_those_of_this_agent(machine):
    obey(machine.agent(), two_replicas({"launcher": "rocket"}))
    _, sentence = failures(machine)["r-2"]
    known = ", ".join(LauncherName)
    assert f"launcher: 'rocket' is unknown: expected one of {known}" in sentence


def test_a_prepared_replica_never_starts_without_its_launcher(machine):
    node = machine.agent()
    waits = {"world": 2, "rendezvous": None}
    obey(node, two_replicas({}, wish=DesiredReplicaState.PREPARE, **waits))
    assert machine.runtime.by_replica["r-2"].phase is ContainerPhase.CREATED
    obey(node, two_replicas({"launcher": "rocket"}))
    assert ("start", "r-2") not in [story[:2] for story in machine.runtime.story]
    assert failures(machine)["r-2"][0] == "unreadable"


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_what_runs_already_goes_on_and_can_still_be_stopped(machine, strange):
    node = machine.agent()
    obey(node, two_replicas({}, processes=1))
    obey(node, two_replicas(strange, processes=4, launcher="torchrun"))
    assert machine.runtime.by_replica["r-2"].phase is ContainerPhase.RUNNING
    assert failures(machine) == {}
    obey(node, two_replicas(strange, wish=DesiredReplicaState.STOP))
    assert machine.runtime.by_replica["r-2"].phase is ContainerPhase.EXITED


def test_an_agent_that_starts_again_still_refuses(machine):
    obey(machine.agent(), two_replicas({"launcher": "rocket"}))
    again = machine.agent()
    assert [r.unreadable != "" for r in again.desired.replicas] == [False, True]
    obey(again)
    assert "r-2" in failures(machine) and "r-2" not in machine.runtime.by_replica


def test_a_gpu_of_a_newer_kind_stays_as_it_is_and_the_node_says_so(machine):
    node = machine.agent()
    obey(node, a_document(machine, on_it(machine)))
    before, data = machine.slices(), on_the_wire(a_document(machine, profile="", revision=2))
    data["gpus"][0]["mode"] = "vgpu"
    data["colour"] = "green"
    obey(node, read_newer_desired(data))
    assert machine.slices() == before
    problems = machine.reported[-1].facts.problems
    assert any("'vgpu' is unknown" in problem for problem in problems)
    assert any("'colour' is unknown" in problem for problem in problems)
    obey(node, a_document(machine, profile="", revision=3))
    assert machine.slices() == {}
    assert not any("older" in problem for problem in machine.reported[-1].facts.problems)


def test_a_slice_of_a_newer_kind_keeps_its_gpu_as_it_is():
    data = on_the_wire()
    uuid = data["slices"][0]["gpu_uuid"]
    data["slices"][0]["engines"] = 2
    document = read_newer_desired(data)
    assert uuid not in {gpu.uuid for gpu in document.gpus}
    assert uuid not in {each.gpu_uuid for each in document.slices}
    assert "stays as it is" in document.unreadable[0]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"protocol": 2}, ContractErrorCode.PROTOCOL_TOO_NEW),
        ({"revision": "seven"}, ContractErrorCode.INVALID_FIELD),
        ({"replicas": {}}, ContractErrorCode.INVALID_FIELD),
        ({"replicas": [{"id": "r-1"}]}, ContractErrorCode.MISSING_FIELD),
        ({"replicas": [{"id": "", "job": "j-1"}]}, ContractErrorCode.INVALID_FIELD),
        ({"gpus": [{"mode": "whole"}]}, ContractErrorCode.INVALID_FIELD),
    ],
)
def test_a_document_whose_entries_have_no_name_is_refused_whole(change, code):
    """Nothing may be stopped because its name could not be read."""
    with pytest.raises(ContractError) as refused:
        read_newer_desired(on_the_wire() | change)
    assert refused.value.code is code


def test_a_response_with_a_new_field_is_read():
    answer = SyncResponse(1, 0, 60, 1, False, "2026-01-01T00:00:00Z", DesiredDocument("n-1", 1))
    data = encode(answer) | {"weather": "fine"}
    data["desired"]["replicas"] = [encode(DesiredReplica("r-1", "j-1")) | {"launcher": "rocket"}]
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=data))

    async def synced():
        client = PortalClient(PortalRoute(("http://portal",)), transport)
        try:
            return await client.sync(None)
        finally:
            await client.close()

    read = asyncio.run(synced())
    assert (read.epoch, read.lease_seconds) == (1, 60)
    assert "rocket" in read.desired.replicas[0].unreadable
