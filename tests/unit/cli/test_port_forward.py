"""`tessera port` while the portal restarts, and at the end of its output."""

import asyncio
import os
from http import HTTPStatus

import pytest
from websockets.asyncio.server import serve

from portal.cli import port_forward
from portal.cli.config import PortalAccess
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.port_forward import PortForward, standard_stream


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(port_forward, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(port_forward, "LONGEST_PAUSE_SECONDS", 0.01)
    monkeypatch.setenv("NO_PROXY", "*")


async def forwarded(answers: list[int]) -> None:
    """Dials a portal that gives these answers, 101 and a close or another status, until it has
    given them all."""
    is_through = asyncio.Event()

    async def restart(socket):
        if not answers:
            is_through.set()
            await socket.wait_closed()
        await socket.close(1012)

    def answer(connection, request):
        status = answers.pop(0)
        return None if status == 101 else connection.respond(HTTPStatus(status), "")

    async with serve(restart, "127.0.0.1", 0, process_request=answer) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        forward = PortForward(PortalAccess(url, "tsr_x"), url, "J-1 port 80", 0)
        running = asyncio.ensure_future(forward.run())
        through = asyncio.ensure_future(is_through.wait())
        await asyncio.wait([running, through], return_when=asyncio.FIRST_COMPLETED)
        through.cancel()
        running.cancel()
        await asyncio.wait([running])
        if not running.cancelled():
            raise running.exception()


def test_it_dials_again_while_the_portal_or_its_proxy_says_that_it_is_away():
    asyncio.run(forwarded([101, 503, 502, 504, 429, 101]))


def test_another_answer_ends_it_and_so_does_the_first_one():
    with pytest.raises(CommandFailed) as failed:
        asyncio.run(forwarded([101, 404]))
    assert failed.value.code == "not_a_portal"
    with pytest.raises(CommandFailed) as failed:
        asyncio.run(forwarded([502]))
    assert str(failed.value) == "http_502: The portal is away: its proxy answered 502"
    assert failed.value.exit_code is ExitCode.FAILURE


def test_the_end_of_the_output_waits_for_a_reader_that_is_slow(monkeypatch):
    """More than a pipe holds, and less than a write waits for."""
    (given, ended), (output, written) = os.pipe(), os.pipe()
    os.close(ended)
    monkeypatch.setattr("sys.stdin", os.fdopen(given, "rb"))
    monkeypatch.setattr("sys.stdout", os.fdopen(written, "wb"))

    async def scenario():
        local = await standard_stream()
        await local.write(bytes(100_000))
        await local.end()
        flushing = asyncio.ensure_future(local.flush())
        await asyncio.sleep(0)
        assert not flushing.done()
        with os.fdopen(output, "rb") as reader:
            assert len(await asyncio.to_thread(reader.read)) == 100_000
        await flushing

    asyncio.run(scenario())
