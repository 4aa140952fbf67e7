"""Logs go to the portal by offset: fairly, at once after hello, and without a round for each."""

import asyncio

import httpx
import pytest

from agents.contract.calls import MAX_LOG_CHUNK_BYTES, HelloResponse, LogResponse
from agents.contract.codec import encode
from agents.contract.errors import ContractError, ContractErrorCode
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
    the chunks that it refused."""

    def __init__(self, runtime, refused=()):
        self.runtime, self.logs, self.calls = runtime, {}, asyncio.Queue()
        self.refused, self.offsets = dict(refused), []

    async def answer(self, request):
        if request.url.path.endswith("hello"):
            return httpx.Response(200, json=GREETED)
        if request.method != "PUT":
            await asyncio.Event().wait()
        replica, offset = request.url.path.split("/")[-2], int(request.url.params["offset"])
        if code := self.refused.get(replica):
            self.offsets.append(offset)
            self.calls.put_nowait(replica)
            refusal = ContractError(code, "not taken")
            return httpx.Response(refusal.status, json=refusal.body())
        assert offset == len(self.logs.get(replica, b""))
        self.logs[replica] = self.logs.get(replica, b"") + request.content
        self.calls.put_nowait(replica)
        return httpx.Response(200, json=encode(LogResponse(len(self.logs[replica]))))

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


def talk(machine, scenario, refused=()):
    """Run the scenario beside a conversation. Returns the number of rounds that it requested of
    the node."""
    woken = []

    async def whole():
        portal, node = Portal(machine.runtime, refused), machine.agent()
        client = PortalClient(PortalRoute(("http://portal",)), httpx.MockTransport(portal.answer))
        identity = AgentIdentity(machine.folder)
        identity.record_enrolment("n-1")
        conversation = PortalSession(client, identity, machine.journal, machine.runtime)
        node.wake = lambda: woken.append(1)
        conversation.node = node
        conversation.report(an_observed())
        talking = asyncio.create_task(conversation.run())
        async with asyncio.timeout(20):
            await scenario(portal)
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        await client.close()

    asyncio.run(whole())
    return len(woken)


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
        await portal.until(lambda: "r-1" in portal.logs)
        there(machine, "r-1", b"its last words\n", ContainerPhase.EXITED)
        there(machine, "r-2", b"sent after the end of r-1 was seen\n")
        await portal.until(lambda: "r-2" in portal.logs)

    assert talk(machine, scenario) >= 2, "when it was first seen, and when it ended"


@pytest.mark.parametrize("code", [ContractErrorCode.REPLICA_UNKNOWN, ContractErrorCode.TOO_LARGE])
def test_a_chunk_that_the_portal_will_never_take_is_sent_once(machine, code):
    log = b"x" * MAX_LOG_CHUNK_BYTES + b"the end"
    there(machine, "r-1", log)

    async def scenario(portal):
        await portal.until(lambda: len(portal.offsets) == 2)
        assert portal.offsets == [0, MAX_LOG_CHUNK_BYTES]
        there(machine, "r-2", b"sent after the log of r-1 was given up\n")
        await portal.until(lambda: "r-2" in portal.logs)
        assert len(portal.offsets) == 2

    talk(machine, scenario, {"r-1": code})
    assert machine.journal.shipped_offsets()["r-1"] == len(log)
