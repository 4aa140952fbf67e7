"""Streams over a socket in memory: what waits, and what an end of the socket ends."""

import asyncio

import pytest

from agents.contract.tunnel import PROTOCOL_ERROR, StreamRefusal
from agents.tunnel import link
from agents.tunnel.link import OpenRefused, StreamReset
from agents.tunnel.splice import SocketStream, splice
from tests.support.memory_tunnel import tunnel

MIB = 1 << 20


async def echo(incoming):
    incoming.accept()
    while data := await incoming.read():
        await incoming.write(data)
    await incoming.end()


async def read_all(stream):
    data = bytearray()
    while piece := await stream.read():
        data += piece
    return bytes(data)


async def write_all(stream, data):
    await stream.write(data)
    await stream.end()


def test_bytes_come_back_whole_while_other_streams_stand_still():
    async def scenario():
        async with tunnel(echo) as (portal, agent, _):
            idle = [await portal.open(b"idle") for _ in range(20)]
            streams = [await portal.open(b"busy") for _ in range(4)]
            sent = [bytes([number]) * (2 * MIB + number) for number in range(4)]
            writing = [write_all(s, data) for s, data in zip(streams, sent, strict=True)]
            reading = [read_all(stream) for stream in streams]
            results = await asyncio.gather(*reading, *writing)
            assert results[:4] == sent
            assert portal.stream_count == len(idle)
            for stream in idle:
                stream.abort()
            other = await portal.open(b"after")
            await write_all(other, b"x")
            assert await read_all(other) == b"x"
            assert agent.stream_count == portal.stream_count == 0

    asyncio.run(scenario())


def test_a_refusal_has_its_code():
    async def refuse(incoming):
        incoming.refuse(StreamRefusal.PORT_CLOSED)

    async def scenario():
        async with tunnel(refuse) as (portal, agent, _):
            with pytest.raises(OpenRefused) as refused:
                await portal.open(b"x")
            assert refused.value.why is StreamRefusal.PORT_CLOSED
            assert portal.stream_count == agent.stream_count == 0

    asyncio.run(scenario())


def test_who_gives_up_while_the_stream_opens_ends_the_work_of_the_other_side():
    async def scenario():
        begun, ended = asyncio.Event(), asyncio.Event()

        async def never(incoming):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with tunnel(never) as (portal, agent, _):
            opening = asyncio.ensure_future(portal.open(b"x"))
            await begun.wait()
            opening.cancel()
            await ended.wait()
            assert portal.stream_count == agent.stream_count == 0

    asyncio.run(scenario())


def test_the_end_of_the_socket_ends_every_stream_and_who_waits_for_one():
    async def scenario():
        async with tunnel(echo) as (portal, _, sockets):
            reader, writer = await portal.open(b"reader"), await portal.open(b"writer")
            waiting = [
                asyncio.ensure_future(reader.read()),
                asyncio.ensure_future(writer.write(bytes(8 * MIB))),
            ]
            await asyncio.sleep(0)
            await sockets[1].close(1012, "gone")
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(result) for result in results] == [StreamReset, StreamReset]
            with pytest.raises(StreamReset):
                await portal.open(b"late")

    asyncio.run(scenario())


def test_a_peer_that_breaks_the_protocol_is_told_why():
    async def scenario():
        async with tunnel(echo) as (portal, _, sockets):
            stream = await portal.open(b"x")
            await sockets[1].send(b"\x09garbage")
            with pytest.raises(StreamReset):
                await stream.read()
            assert sockets[0].closed_with == (PROTOCOL_ERROR, "a frame of type 9")

    asyncio.run(scenario())


def test_who_is_shut_out_is_not_heard_any_more_even_if_the_socket_stays_open(monkeypatch):
    monkeypatch.setattr(link, "CLOSE_SECONDS", 0.05)
    heard, ended = bytearray(), asyncio.Event()

    async def listen(incoming):
        incoming.accept()
        try:
            while data := await incoming.read():
                heard.extend(data)
        finally:
            ended.set()

    async def never(code, reason):
        await asyncio.Event().wait()

    async def scenario():
        async with tunnel(listen) as (portal, agent, sockets):
            stream = await portal.open(b"x")
            await stream.write(b"before")
            while not heard:
                await asyncio.sleep(0)
            sockets[1].close = never
            closing = asyncio.ensure_future(agent.close(1008, "not any more"))
            await ended.wait()
            await stream.write(b"after")
            opening = asyncio.ensure_future(portal.open(b"y"))
            await closing
            assert (bytes(heard), agent.stream_count) == (b"before", 0)
            assert not opening.done()
            opening.cancel()

    asyncio.run(scenario())


def test_a_failure_of_one_stream_ends_that_stream_alone():
    async def fail(incoming):
        if incoming.target == b"bad":
            incoming.accept()
            raise RuntimeError("boom")
        await echo(incoming)

    async def scenario():
        async with tunnel(fail) as (portal, _, _):
            with pytest.raises(StreamReset):
                await (await portal.open(b"bad")).read()
            good = await portal.open(b"good")
            await write_all(good, b"still here")
            assert await read_all(good) == b"still here"

    asyncio.run(scenario())


def test_a_tcp_connection_is_spliced_with_its_half_close():
    async def upper(reader, writer):
        data = await reader.read()
        writer.write(data.upper())
        writer.close()

    async def scenario():
        server = await asyncio.start_server(upper, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def serve(incoming):
            local = SocketStream(*await asyncio.open_connection("127.0.0.1", port))
            incoming.accept()
            try:
                assert await splice(incoming, local)
            finally:
                local.close()

        async with server, tunnel(serve) as (portal, _, _):
            stream = await portal.open(b"x")
            await write_all(stream, b"bytes " * 100_000)
            assert await read_all(stream) == b"BYTES " * 100_000
            assert portal.stream_count == 0

    asyncio.run(scenario())
