"""A WebSocket of a caller and the app's one behind it, over a real connection."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from portal.apps.http_exchange import CallEnd, NoAnswer
from portal.apps.websocket_exchange import WebSocketExchange
from tests.support.app_calls import listening, saying, stream_to, websocket_call

PIECE = b"x" * 65_536


@asynccontextmanager
async def joined(handler, *, subprotocols=(), **options):
    """A caller's WebSocket, the app's one behind it, and the end of the caller's rights."""
    offered = ["v1"] if subprotocols else None
    async with serve(handler, "127.0.0.1", 0, subprotocols=offered, **options) as server:
        port = server.sockets[0].getsockname()[1]
        call, end = websocket_call(subprotocols=subprotocols), CallEnd()
        call.sent.get_nowait()
        exchange = WebSocketExchange(
            await stream_to(port),
            receive=call.sent.get,
            send=lambda message: call.said.put(message),
            hidden_cookies=(),
            subprotocols=subprotocols,
        )
        headers = [(b"host", b"app"), (b"sec-websocket-key", b"the caller's own")]
        running = asyncio.ensure_future(exchange.run("/ws", headers, end))
        yield call, end, running
        await asyncio.wait_for(running, 20)


def test_messages_pass_both_ways_and_the_app_ends_it():
    async def echo(socket):
        async for message in socket:
            if message == "bye":
                await socket.close(4001, "so it said")
            await socket.send([message[:2], message[2:]])

    async def scenario():
        async with joined(echo, subprotocols=("v0", "v1")) as (call, _, _):
            assert (await call.next())["subprotocol"] == "v1"
            for message in ({"text": "grüße"}, {"bytes": b"\x00\xff" * 100_000}):
                call.sent.put_nowait({"type": "websocket.receive"} | message)
                assert await call.next() == {"type": "websocket.send"} | message
            call.sent.put_nowait({"type": "websocket.receive", "text": "bye"})
            closing = {"type": "websocket.close", "code": 4001, "reason": "so it said"}
            assert await call.next() == closing

    asyncio.run(scenario())


def test_a_websocket_ends_with_the_right_to_it_and_with_the_caller():
    codes: list[int] = []

    async def wait(socket):
        try:
            await socket.recv()
        except ConnectionClosed as closed:
            codes.append(closed.rcvd.code if closed.rcvd else 0)

    async def scenario(ends):
        async with joined(wait) as (call, end, running):
            await call.next()
            ends(call, end)
            await asyncio.wait_for(asyncio.shield(running), 20)
            return None if call.said.empty() else (await call.next())["code"]

    hung_up = {"type": "websocket.disconnect", "code": 1001}
    assert asyncio.run(scenario(lambda _, end: end.set())) == 1008
    assert asyncio.run(scenario(lambda call, _: call.sent.put_nowait(hung_up))) is None
    assert codes == [0, 1001]


def test_what_an_app_says_instead_of_a_websocket_is_passed_on():
    async def refuse(connection, request):
        return connection.respond(403, "not you")

    async def scenario():
        async with joined(None, process_request=refuse) as (call, _, _):
            assert (await call.next())["status"] == 403
            assert (await call.next())["body"] == b"not you"

    asyncio.run(scenario())


def test_garbage_instead_of_a_handshake_is_no_answer():
    async def scenario(handler):
        async with listening(handler) as port:
            call = websocket_call()
            exchange = WebSocketExchange(
                *[await stream_to(port)],
                receive=call.sent.get,
                send=call.said.put,
                hidden_cookies=(),
                subprotocols=(),
            )
            with pytest.raises(NoAnswer):
                await exchange.run("/", [(b"host", b"app")], CallEnd())

    asyncio.run(scenario(saying(b"SSH-2.0-OpenSSH_9.6\r\n")))
    asyncio.run(scenario(saying(b"")))
    asyncio.run(scenario(saying(b"HTTP/1.1 101 OK\r\nSec-WebSocket-Accept: forged\r\n\r\n")))


def test_a_flood_of_an_app_waits_for_its_reader():
    held_back = asyncio.Event()

    async def flood(socket):
        try:
            while True:
                await asyncio.wait_for(socket.send(PIECE), 0.5)
        except TimeoutError:
            held_back.set()

    async def scenario():
        async with joined(flood) as (call, end, running):
            call.said = asyncio.Queue(maxsize=2)
            await asyncio.wait_for(held_back.wait(), 20)
            end.set()
            running.cancel()
            await asyncio.wait([running])

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scenario())


def test_a_flood_of_a_caller_waits_for_the_app():
    over = asyncio.Event()

    async def deaf(socket):
        socket.transport.pause_reading()
        await over.wait()

    async def scenario():
        async with joined(deaf) as (call, end, running):
            await call.next()
            for _ in range(1_000):
                call.sent.put_nowait({"type": "websocket.receive", "bytes": PIECE})
            before = None
            while before != (before := call.sent.qsize()):
                await asyncio.sleep(0.2)
            assert before > 500
            end.set()
            await asyncio.wait_for(asyncio.shield(running), 20)
            over.set()

    asyncio.run(scenario())
