"""From one web process to another, over a real server and a real client on loopback."""

import asyncio
import json
import socket
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest
import uvicorn
from websockets.exceptions import InvalidStatus

from agents.contract.tunnel import StreamRefusal
from agents.tunnel.client_socket import Dial
from agents.tunnel.link import OpenRefused, StreamReset
from portal.apps.application import LAST_CALLS_SECONDS
from portal.draining import LAST_REQUESTS_SECONDS, _drop_new_connections
from portal.live.listener import listener
from portal.tunnel import relay, streams
from portal.tunnel.held import hold_tunnel
from portal.tunnel.registry import PROCESS, Holder, _opened, _sealed
from portal.tunnel.streams import StreamRefused, Target, stream_open
from tests.unit.agents.test_tunnel_link import echo, read_all, tunnel, write_all

NODE, OTHER = UUID(int=7), UUID(int=8)
MIB = 1 << 20


@asynccontextmanager
async def web():
    """The address of a server whose only call is the relay."""
    config = uvicorn.Config(
        relay.relay_endpoint, port=0, lifespan="off", log_level="warning", ws_ping_interval=0.05
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        await relay.close_relays()
        await listener().close()


@pytest.fixture(autouse=True)
def sockets_in(settings, tmp_path):
    """Bells are not rung here; the listener only needs a folder."""
    settings.PLATFORM = replace(settings.PLATFORM, redis_url="", var=tmp_path)


async def opened_by_relay(address, node, target):
    link = await relay._link_to(Holder(PROCESS, address))
    return await link.open(node.bytes + target)


def test_streams_pass_from_process_to_process_and_a_stalled_one_stalls_alone():
    async def scenario():
        async with web() as address, tunnel(echo) as (held, _, _):
            with hold_tunnel(NODE, held):
                stalled = await opened_by_relay(address, NODE, b"x")
                filling = asyncio.ensure_future(stalled.write(bytes(8 * MIB)))
                streams = [await opened_by_relay(address, NODE, b"x") for _ in range(3)]
                sent = [bytes([number]) * (3 * MIB) for number in range(3)]
                writing = [write_all(s, data) for s, data in zip(streams, sent, strict=True)]
                reading = [read_all(stream) for stream in streams]
                assert (await asyncio.gather(*reading, *writing))[:3] == sent
                assert not filling.done()
                filling.cancel()
                stalled.abort()

    asyncio.run(scenario())


def test_a_node_without_a_tunnel_is_a_refusal():
    async def scenario():
        async with web() as address, tunnel(echo) as (held, _, _):
            with hold_tunnel(NODE, held), pytest.raises(OpenRefused) as refused:
                await opened_by_relay(address, OTHER, b"x")
            assert refused.value.why is StreamRefusal.NO_TUNNEL

    asyncio.run(scenario())


def test_the_end_of_the_tunnel_ends_its_streams_in_the_other_process():
    async def scenario():
        async with web() as address, tunnel(echo) as (held, _, sockets):
            with hold_tunnel(NODE, held):
                stream = await opened_by_relay(address, NODE, b"x")
                reading = asyncio.ensure_future(stream.read())
                await sockets[0].close(1006, "")
                with pytest.raises(StreamReset):
                    await reading

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(lambda: "", id="none"),
        pytest.param(lambda: "Relay 1.abc", id="nonsense"),
        pytest.param(lambda: relay._signed(PROCESS, 1_000_000_000), id="of long ago"),
        pytest.param(lambda: relay._signed("0" * 16, int(time.time())), id="for another process"),
    ],
)
def test_strangers_find_nothing_there(authorization):
    async def scenario():
        async with web() as address:
            with pytest.raises(InvalidStatus) as refused:
                await Dial(
                    f"ws://{address}{relay.RELAY_PATH}",
                    additional_headers={"Authorization": authorization()},
                )
            assert refused.value.response.status_code == 404

    asyncio.run(scenario())


@pytest.mark.parametrize("is_ending", [True, False])
def test_a_stream_waits_for_a_holder_that_ends_and_not_for_one_that_is_gone(is_ending, monkeypatch):
    """One that ends takes no connections, and keeps its tunnels until its last calls are over: then
    the node opens one elsewhere, here in this process."""
    looks, again = [], asyncio.Event()
    monkeypatch.setattr(streams, "TUNNEL_SECONDS", 0.0)
    monkeypatch.setattr(relay, "CONNECT_SECONDS", 0.05)

    async def scenario():
        with socket.create_server(("127.0.0.1", 0)) as door:
            address = f"127.0.0.1:{door.getsockname()[1]}"
            _drop_new_connections(door)
            if not is_ending:
                door.close()

            async def find_holder(node_id):
                looks.append(node_id)
                if len(looks) > 1:
                    again.set()
                return Holder("another", address)

            monkeypatch.setattr(relay, "find_holder", find_holder)
            opening = asyncio.ensure_future(stream_open(Target(NODE, 1, 0, 80)))
            if not is_ending:
                with pytest.raises(StreamRefused) as refused:
                    await opening
                assert refused.value.code is StreamRefusal.NO_TUNNEL
                return
            waiting = asyncio.ensure_future(again.wait())
            await asyncio.wait((opening, waiting), return_when=asyncio.FIRST_COMPLETED)
            async with tunnel(echo) as (held, _, _):
                with hold_tunnel(NODE, held):
                    stream = await opening
                    await stream.write(b"x")
                    assert await stream.read() == b"x"
        await relay.close_relays()

    asyncio.run(scenario())


def test_a_caller_waits_longer_than_a_process_that_ends_keeps_its_tunnels():
    """The node's next tunnel takes a second or two."""
    assert LAST_REQUESTS_SECONDS + LAST_CALLS_SECONDS + 2 < streams.OPEN_SECONDS


def test_an_entry_in_redis_counts_for_the_node_and_the_address_that_were_signed():
    holder = Holder("0123", "10.0.0.5:8000")
    entry = json.loads(_sealed(NODE, holder))
    assert _opened(NODE, json.dumps(entry).encode()) == holder
    assert _opened(OTHER, json.dumps(entry).encode()) is None
    assert _opened(NODE, json.dumps(entry | {"address": "10.6.6.6:80"}).encode()) is None
    for garbage in (b"", b"[]", b"{}", b"\xff", b'{"process":1}'):
        assert _opened(NODE, garbage) is None
