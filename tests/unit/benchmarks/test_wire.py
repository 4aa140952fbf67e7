"""The client of the coroutine agents: whose answer is whose, and what it makes of errors."""

import asyncio
import contextlib

import pytest

from tests.benchmarks.control_plane.wire import HttpClient, Unreachable


class Server:
    """Answers each call with its path; `/held` only once it is let go."""

    def __init__(self, *, closes=False):
        self.closes = closes
        self.has_held, self.may_answer = asyncio.Event(), asyncio.Event()

    @contextlib.asynccontextmanager
    async def client(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        try:
            yield client
        finally:
            await client.close()
            server.close()

    async def _serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while not self.closes:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
                if path == b"/held":
                    self.has_held.set()
                    await self.may_answer.wait()
                size = b"%d" % len(path)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: " + size + b"\r\n\r\n" + path)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def test_the_answer_to_a_cancelled_call_is_never_taken_for_that_of_the_next_one():
    async def scenario():
        server = Server()
        async with server.client() as client:
            assert (await client.call("GET", "/first")).body == b"/first"
            held = asyncio.create_task(client.call("GET", "/held"))
            await server.has_held.wait()
            held.cancel()
            with pytest.raises(asyncio.CancelledError):
                await held
            server.may_answer.set()
            assert (await client.call("GET", "/second")).body == b"/second"

    asyncio.run(scenario())


def test_calls_at_the_same_time_get_their_own_answers():
    async def scenario():
        server = Server()
        async with server.client() as client:
            held = asyncio.create_task(client.call("GET", "/held"))
            paths = [f"/call-{number}" for number in range(20)]
            answers = await asyncio.gather(*(client.call("GET", path) for path in paths))
            assert [answer.body.decode() for answer in answers] == paths
            server.may_answer.set()
            assert (await held).body == b"/held"

    asyncio.run(scenario())


def test_a_connection_that_ends_before_the_answer_is_an_error():
    async def scenario():
        async with Server(closes=True).client() as client:
            with pytest.raises(Unreachable, match="GET /x"):
                await client.call("GET", "/x")

    asyncio.run(scenario())
