"""WebSockets to jobs that are being opened: how many at once, and for how long."""

import asyncio
import json
import threading
from types import SimpleNamespace

import pytest

from portal.api.ports import endpoint as ports
from portal.api.ports import handshakes
from portal.api.terminals import endpoint as terminals
from portal.client_address import set_client_address
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.event_stream import shared_read
from tests.support.app_calls import LONG_SECONDS, body_of, header_of, status_of, websocket_call

HERE, ELSEWHERE = "192.0.2.7", "198.51.100.1"
ENDPOINTS = {
    "port": (ports, "port_admit", ports.port_endpoint, "/api/v1/jobs/J-1/ports/80"),
    "terminal": (terminals, "terminal_admit", terminals.terminal_endpoint, "/api/v1/jobs/J-1/ssh"),
}


@pytest.fixture(params=ENDPOINTS)
def silent(request, monkeypatch):
    """An endpoint whose database says nothing until `answer` is set, and then that there is no such
    job."""
    module, admission, serve, path = ENDPOINTS[request.param]
    answer = threading.Event()

    def admit(**_):
        answer.wait(LONG_SECONDS)
        raise Refused(ErrorCode.NOT_FOUND, "There is no such job")

    monkeypatch.setattr(module, admission, admit)
    yield SimpleNamespace(answer=answer, serve=serve, path=path)
    answer.set()


def calling(silent, address: str = HERE) -> asyncio.Task:
    async def handshake():
        set_client_address(address)
        return await websocket_call(silent.path).run(silent.serve)

    return asyncio.ensure_future(handshake())


def test_a_flood_from_one_address_is_refused_and_another_one_gets_in(silent, monkeypatch):
    monkeypatch.setattr(handshakes, "MAX_OPENING_OF_ADDRESS", 2)
    monkeypatch.setattr(handshakes, "MAX_OPENING", 3)

    async def scenario():
        here, elsewhere = ([calling(silent, each) for _ in range(4)] for each in (HERE, ELSEWHERE))
        for refused in (await here[2], await here[3], await elsewhere[1]):
            assert status_of(refused) == 429
            assert header_of(refused, "retry-after") == ["1"]
        assert not any(each.done() for each in (*here[:2], elsewhere[0]))
        silent.answer.set()
        assert [status_of(await each) for each in (*here[:2], elsewhere[0])] == [404] * 3
        # Their places are free again.
        assert status_of(await calling(silent)) == 404

    asyncio.run(scenario())


def test_one_that_the_database_does_not_answer_ends_and_leaves_its_place(silent, monkeypatch):
    monkeypatch.setattr(handshakes, "MAX_OPENING", 1)
    monkeypatch.setattr(handshakes, "HANDSHAKE_SECONDS", 0.05)

    async def scenario():
        for _ in range(2):
            said = await calling(silent)
            assert status_of(said) == 503
            assert json.loads(body_of(said))["code"] == "database_unavailable"
            assert header_of(said, "retry-after") == ["1"]

    asyncio.run(scenario())


def test_while_many_wait_what_is_open_is_still_looked_at(silent):
    """Rights that are taken away end what is open within seconds, whoever knocks meanwhile."""

    async def scenario():
        waiting = [calling(silent) for _ in range(handshakes.MAX_OPENING_OF_ADDRESS)]
        looking = asyncio.ensure_future(shared_read(lambda: "looked"))
        # Not asyncio.timeout: what runs in a thread does not hear of it.
        await asyncio.wait([looking], timeout=handshakes.HANDSHAKE_SECONDS / 2)
        assert looking.done()
        silent.answer.set()
        await asyncio.gather(*waiting)

    asyncio.run(scenario())
