"""Logs go to the portal by offset: fairly, at once after hello, and without a round for each."""

import asyncio
import threading
from dataclasses import replace

import httpx
import pytest

from agents.contract.calls import (
    LOGS_PATH,
    MAX_LOG_CHUNK_BYTES,
    HelloResponse,
    LogResponse,
)
from agents.contract.codec import encode
from agents.contract.documents import ObservedReplica, ReplicaState
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.log_batch import (
    MAX_LOG_BATCH_BYTES,
    LogBatchResponse,
    LogChunkResult,
    unpack_logs,
)
from agents.portal import sync
from agents.portal.client import PortalClient
from agents.portal.sync import PortalSession
from agents.route.portal_route import PortalRoute
from agents.runtime.base import ContainerPhase, ContainerStatus
from agents.state.identity import AgentIdentity
from tests.unit.agents.documents import an_observed

WHEN = "2026-01-01T00:00:00Z"
GREETED = encode(HelloResponse(1, "t", 600, 60, 0, WHEN))


class Portal:
    """Takes logs as the real one does: by offset, each byte once. Sync calls are held for ever.

    `refused`: the replicas whose logs it does not take, and with which code. `offsets`: those of
    the chunks that it refused. `is_older`: it knows no calls with several logs."""

    def __init__(self, runtime, refused=(), *, is_older=False):
        self.runtime, self.logs, self.calls = runtime, {}, asyncio.Queue()
        self.refused, self.offsets, self.is_older = dict(refused), [], is_older
        # Of each call with logs, the replicas.
        self.batches = []
        self.wakes = 0

    def count_wake(self):
        """In place of the node's own."""
        self.wakes += 1
        self.calls.put_nowait("")

    async def answer(self, request):
        path = request.url.path
        if path.endswith("hello"):
            return httpx.Response(200, json=GREETED)
        if path == LOGS_PATH:
            return self.several(unpack_logs(request.content))
        if request.method == "PUT":
            return self.one(path.split("/")[-2], int(request.url.params["offset"]), request.content)
        return await asyncio.Event().wait()

    def several(self, chunks):
        self.batches.append([chunk.replica for chunk in chunks])
        if self.is_older:
            return httpx.Response(404, json={"error": {"code": "not_found", "sentence": ""}})
        results = []
        for chunk in chunks:
            end, code = self.taken(chunk.replica, chunk.offset, chunk.data)
            results.append(LogChunkResult(chunk.replica, end, code))
        return httpx.Response(200, json=encode(LogBatchResponse(tuple(results))))

    def one(self, replica, offset, data):
        end, code = self.taken(replica, offset, data)
        if code:
            refusal = ContractError(code, "not taken", "", {"expected_offset": end})
            return httpx.Response(refusal.status, json=refusal.body())
        return httpx.Response(200, json=encode(LogResponse(end)))

    def taken(self, replica, offset, data):
        """The end of its log, and the code of a refusal."""
        self.calls.put_nowait(replica)
        if code := self.refused.get(replica):
            self.offsets.append(offset)
            return 0, code
        log = self.logs.setdefault(replica, b"")
        if offset != len(log):
            return len(log), ContractErrorCode.OFFSET_MISMATCH
        self.logs[replica] = log + data
        return len(self.logs[replica]), ""

    async def until(self, reached):
        while not reached():
            await self.calls.get()


class Chatty(dict):
    """Logs of which one has a line more whenever it is read."""

    def get(self, replica, default=b""):
        if replica == "r-chatty":
            self[replica] = self[replica] + b"another line\n"
        return super().get(replica, default)


def there(machine, replica, log, phase=ContainerPhase.RUNNING):
    machine.runtime.by_replica[replica] = ContainerStatus(
        replica, "j", 1, 0, 1, phase, "c", "10.0.0.1", 1
    )
    machine.runtime.logs[replica] = log


def talk(machine, scenario, refused=(), *, is_older=False, on_shipped=None):
    """Run the scenario beside a conversation. Returns the number of rounds that it requested of
    the node."""
    wakes = []

    async def run_scenario():
        portal = Portal(machine.runtime, refused, is_older=is_older)
        node = machine.agent()
        client = PortalClient(PortalRoute(("http://portal",)), httpx.MockTransport(portal.answer))
        identity = AgentIdentity(machine.folder)
        identity.record_enrolment("n-1")
        conversation = PortalSession(client, identity, machine.journal, machine.runtime)
        node.wake = portal.count_wake
        conversation.logs.on_shipped = on_shipped
        conversation.node = node
        conversation.report(an_observed())
        talking = asyncio.create_task(conversation.run())
        async with asyncio.timeout(300):
            await scenario(portal)
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        await client.close()
        wakes.append(portal.wakes)

    asyncio.run(run_scenario())
    return wakes[0]


def test_a_log_that_grows_faster_than_it_is_sent_keeps_no_other_waiting(machine):
    machine.runtime.logs = Chatty()
    there(machine, "r-chatty", b"")
    there(machine, "r-quiet", b"one line\n")

    async def scenario(portal):
        await portal.until(lambda: portal.logs.get("r-quiet") == b"one line\n")

    talk(machine, scenario)


def test_a_log_of_many_chunks_arrives_whole_and_in_order(machine):
    log = bytes(range(256)) * (3 * MAX_LOG_CHUNK_BYTES // 256) + b"the end"
    there(machine, "r-1", log)

    async def scenario(portal):
        await portal.until(lambda: len(portal.logs.get("r-1", b"")) == len(log))
        assert portal.logs["r-1"] == log

    talk(machine, scenario)


def test_the_node_looks_again_when_a_log_has_ended_not_while_it_grows(machine):
    machine.runtime.logs = Chatty()
    there(machine, "r-chatty", b"")

    async def grown(portal):
        await portal.until(lambda: len(portal.logs.get("r-chatty", b"")) > 60)

    assert talk(machine, grown) == 1, "once, when the replica was first seen"


def test_the_end_of_a_log_that_went_while_its_replica_ran_wakes_the_node(machine):
    there(machine, "r-1", b"its last words\n")

    async def scenario(portal):
        await portal.until(lambda: portal.wakes == 1)  # when it was first seen
        there(machine, "r-1", b"its last words\n", ContainerPhase.EXITED)
        await portal.until(lambda: portal.wakes == 2)

    talk(machine, scenario)


@pytest.mark.parametrize("is_older", [False, True])
@pytest.mark.parametrize("code", [ContractErrorCode.REPLICA_UNKNOWN, ContractErrorCode.TOO_LARGE])
def test_a_chunk_that_the_portal_will_never_take_is_sent_once(machine, code, is_older):
    log = b"x" * MAX_LOG_CHUNK_BYTES + b"the end"
    there(machine, "r-1", log)

    async def scenario(portal):
        await portal.until(lambda: len(portal.offsets) == 2)
        assert portal.offsets == [0, MAX_LOG_CHUNK_BYTES]
        there(machine, "r-2", b"sent after the log of r-1 was given up\n")
        await portal.until(lambda: "r-2" in portal.logs)
        assert len(portal.offsets) == 2

    talk(machine, scenario, {"r-1": code}, is_older=is_older)
    assert machine.journal.shipped_offsets()["r-1"] == len(log)


@pytest.mark.parametrize("refused", [{}, {"r-1": ContractErrorCode.TOO_LARGE}])
def test_each_byte_that_was_shipped_is_passed_on_once(machine, refused):
    log = bytes(range(256)) * (2 * MAX_LOG_CHUNK_BYTES // 256) + b"the end"
    there(machine, "r-1", log)
    passed, is_complete = [], threading.Event()

    def take(*chunk):
        """It comes after the answer to the call, and the last one is followed by no other call."""
        passed.append(chunk)
        if sum(len(data) for _, _, data in passed) >= len(log):
            is_complete.set()

    async def scenario(_):
        assert await asyncio.to_thread(is_complete.wait, 200)

    talk(machine, scenario, refused, on_shipped=take)
    assert b"".join(data for _, _, data in passed) == log
    assert [at for _, at, _ in passed] == [0, MAX_LOG_CHUNK_BYTES, 2 * MAX_LOG_CHUNK_BYTES]


def test_the_logs_of_all_replicas_go_in_one_call(machine):
    names = [f"r-{number}" for number in range(8)]
    for name in names:
        there(machine, name, f"the log of {name}\n".encode())

    async def scenario(portal):
        await portal.until(lambda: len(portal.logs) == len(names))
        assert portal.batches == [names]

    talk(machine, scenario)


def test_logs_without_room_in_a_call_come_first_in_the_next(machine):
    names = [f"r-{number}" for number in range(5)]
    whole = b"x" * MAX_LOG_BATCH_BYTES
    for name in names:
        there(machine, name, whole)

    async def scenario(portal):
        await portal.until(lambda: all(portal.logs.get(name) == whole for name in names))
        assert portal.batches == [names[:2], names[2:4], ["r-4", "r-0"], names[1:3], names[3:]]

    talk(machine, scenario)


def test_a_log_of_which_the_portal_has_more_or_less_goes_on_at_its_end(machine):
    async def scenario(portal):
        portal.logs["r-1"] = b"0123"
        machine.journal.record_shipped({"r-1": 8})
        there(machine, "r-1", b"0123456789")
        await portal.until(lambda: portal.logs["r-1"] == b"0123456789")
        there(machine, "r-2", b"sent after the answer about r-1\n")
        await portal.until(lambda: "r-2" in portal.logs)

    talk(machine, scenario)
    assert machine.journal.shipped_offsets()["r-1"] == 10


def test_an_older_portal_gets_each_log_alone_and_is_asked_once(machine):
    names = ["r-1", "r-2"]
    for name in names:
        there(machine, name, b"a line\n")

    async def scenario(portal):
        await portal.until(lambda: portal.logs.keys() == set(names))
        there(machine, "r-3", b"later\n")
        await portal.until(lambda: "r-3" in portal.logs)
        assert portal.batches == [names]

    talk(machine, scenario, is_older=True)


def test_the_log_of_a_replica_that_has_ended_goes_at_once(machine, monkeypatch):
    monkeypatch.setattr(sync, "SHIP_SECONDS", 3_600)
    monkeypatch.setattr(sync, "TICK_SECONDS", 3_600)
    sessions = []

    async def scenario(portal):
        (session,) = sessions
        await session._has_greeted.wait()
        there(machine, "r-ended", b"its last words\n", ContainerPhase.EXITED)
        ended = ObservedReplica("r-ended", "j", 1, 0, 1, ReplicaState.EXITED)
        session.report(replace(an_observed(), replicas=(ended,)))
        await portal.until(lambda: "r-ended" in portal.logs)

    plain = PortalSession.__init__

    def remembered(session, *parts):
        sessions.append(session)
        plain(session, *parts)

    monkeypatch.setattr(PortalSession, "__init__", remembered)
    talk(machine, scenario)
