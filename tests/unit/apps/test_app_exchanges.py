"""A request and the app's answer, over a real connection: what passes, and what apps do wrong."""

import asyncio

import h11
import pytest

from portal.apps.http_exchange import CallEnded, ConnectionCut, HttpExchange, NoAnswer
from tests.support.app_calls import (
    body_of,
    header_of,
    http_call,
    listening,
    saying,
    silent,
    status_of,
    stream_to,
)

PIECE = b"x" * 65_536


def exchange_of(stream, call, seconds=20.0) -> HttpExchange:
    return HttpExchange(
        stream,
        receive=call.sent.get,
        send=call.said.put,
        hidden_cookies=("tessera-app",),
        first_byte_seconds=seconds,
    )


def head(method="GET", *headers) -> h11.Request:
    given = [("host", "app"), ("connection", "close"), *headers]
    return h11.Request(method=method, target="/a%2Fb?c=d", headers=given)


async def carried(handler, call, request=None, *, seconds=20.0, end=None):
    async with listening(handler) as port:
        exchange = exchange_of(await stream_to(port), call, seconds)
        await exchange.run(request or head(), end or asyncio.Event())
    return [call.said.get_nowait() for _ in range(call.said.qsize())]


def test_an_answer_passes_as_the_app_gave_it():
    heard: list[bytes] = []
    answer = (
        b"HTTP/1.1 103 Early Hints\r\n\r\n"
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/9\r\nContent-Length: 5\r\n"
        b"Connection: close\r\n\r\nhello"
    )
    said = asyncio.run(carried(saying(answer, hears=heard), http_call()))
    assert (status_of(said), body_of(said)) == (206, b"hello")
    assert header_of(said, "content-range") == ["bytes 0-4/9"]
    assert header_of(said, "connection") == []
    assert heard[0].startswith(b"GET /a%2Fb?c=d HTTP/1.1\r\n")


def test_both_ways_stream_at_once():
    async def echo(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while (piece := await reader.readline()).strip() != b"0":
            if piece.startswith(b"word"):
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def scenario():
        call = http_call(method="POST")
        call.sent.get_nowait()
        async with listening(echo) as port:
            exchange = exchange_of(await stream_to(port), call)
            chunked = head("POST", ("transfer-encoding", "chunked"))
            running = asyncio.ensure_future(exchange.run(chunked, asyncio.Event()))
            assert (await call.next())["status"] == 200
            for word in (b"word 1\n", b"word 2\n"):
                call.sent.put_nowait({"type": "http.request", "body": word, "more_body": True})
                assert (await call.next())["body"] == word
            call.sent.put_nowait({"type": "http.request", "body": b""})
            assert await call.next() == {"type": "http.response.body", "body": b""}
            await running

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 80_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 20_000 + b"\r\n",
    ],
    ids=["other protocol", "nothing", "two lengths", "coding", "upgrade", "long", "many"],
)
def test_an_answer_that_is_no_http_is_none(answer):
    with pytest.raises(NoAnswer) as raised:
        asyncio.run(carried(saying(answer), http_call()))
    assert not raised.value.is_late


def test_headers_without_an_end_are_not_kept():
    """An app that writes a gigabyte of them is cut off after some of it."""
    sent = 0

    async def write_headers(reader, writer):
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X: " + PIECE + b"\r\n")
            sent += len(PIECE)
            await writer.drain()

    with pytest.raises(NoAnswer) as raised:
        asyncio.run(carried(write_headers, http_call()))
    assert not raised.value.is_late
    # What the kernel's buffers took.
    assert sent < 64 << 20


def test_a_way_that_breaks_in_the_middle_of_an_upload_is_no_answer_of_the_app():
    class Cut:
        """A stream whose tunnel is lost after a while."""

        written = 0

        async def read(self):
            await lost.wait()
            raise ConnectionResetError

        async def write(self, data):
            Cut.written += len(data)
            if Cut.written > 4 * len(PIECE):
                lost.set()
                raise ConnectionResetError

        async def end(self):
            """Never reached."""

        def abort(self):
            """Nothing is left of it."""

    lost, call = asyncio.Event(), http_call(method="POST")
    call.sent.get_nowait()
    for _ in range(64):
        call.sent.put_nowait({"type": "http.request", "body": PIECE, "more_body": True})

    async def scenario():
        upload = head("POST", ("content-length", str(10**9)))
        with pytest.raises(ConnectionCut):
            await exchange_of(Cut(), call).run(upload, asyncio.Event())

    asyncio.run(scenario())
    assert call.said.empty()


def test_the_length_of_a_body_that_does_not_follow_is_not_passed_on():
    answer = b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 9\r\n\r\n"
    said = asyncio.run(carried(saying(answer), http_call()))
    assert (status_of(said), body_of(said)) == (304, b"")
    assert (header_of(said, "etag"), header_of(said, "content-length")) == (["x"], [])


def test_an_app_that_never_answers_is_waited_for_a_while():
    with pytest.raises(NoAnswer) as raised:
        asyncio.run(carried(silent, http_call(), seconds=0.1))
    assert raised.value.is_late


def test_an_answer_that_breaks_off_is_left_unfinished():
    said = asyncio.run(
        carried(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhell"), http_call())
    )
    assert body_of(said) == b"hell"
    assert said[-1].get("more_body")


def test_an_answer_before_the_end_of_the_request_is_passed_on():
    call = http_call(method="POST")
    call.sent.get_nowait()
    for _ in range(64):
        call.sent.put_nowait({"type": "http.request", "body": PIECE, "more_body": True})

    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        # One that closed now would reset the connection, and the answer with it.
        await reader.read()
        writer.close()

    upload = head("POST", ("content-length", str(10**9)))
    assert status_of(asyncio.run(carried(refuse, call, upload))) == 413


def test_an_upload_that_the_app_does_not_take_is_not_read_into_memory():
    async def deaf(reader, writer):
        reader._transport.pause_reading()
        await over.wait()
        writer.close()

    over, call = asyncio.Event(), http_call(method="POST")
    for _ in range(1_000):
        call.sent.put_nowait({"type": "http.request", "body": PIECE, "more_body": True})
    upload = head("POST", ("content-length", str(10**9)))

    async def scenario():
        async with listening(deaf) as port:
            exchange = exchange_of(await stream_to(port), call, 0.3)
            running = asyncio.ensure_future(exchange.run(upload, asyncio.Event()))
            await asyncio.wait([running])
            assert isinstance(running.exception(), NoAnswer)
            left = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}
            assert "Event.wait" not in left
            over.set()

    call.sent.get_nowait()
    asyncio.run(scenario())
    assert call.sent.qsize() > 700


def test_a_call_ends_with_the_right_to_it_and_with_the_caller():
    async def endless(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nfirst")
        await reader.read()
        gone.set()
        writer.close()

    async def scenario(ends):
        call, end = http_call(), asyncio.Event()
        async with listening(endless) as port:
            exchange = exchange_of(await stream_to(port), call)
            running = asyncio.ensure_future(exchange.run(head(), end))
            await call.next()
            assert (await call.next())["body"] == b"first"
            ends(call, end)
            await asyncio.wait_for(running, 20)
            await asyncio.wait_for(gone.wait(), 20)
            assert call.said.empty()

    gone = asyncio.Event()
    asyncio.run(scenario(lambda _, end: end.set()))
    gone = asyncio.Event()
    asyncio.run(scenario(lambda call, _: call.sent.put_nowait({"type": "http.disconnect"})))

    async def before_it_began():
        end = asyncio.Event()
        end.set()
        with pytest.raises(CallEnded):
            await carried(silent, http_call(), end=end)

    asyncio.run(before_it_began())
