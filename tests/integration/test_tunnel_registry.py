"""Which process holds a tunnel, as a real Redis has it."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest
import redis

from agents.tunnel.link import TunnelLink
from portal.tunnel import registry
from portal.tunnel.held import hold_tunnel
from portal.tunnel.registry import Holder, announce_tunnel, close_registry, find_holder
from tests.support.memory_tunnel import MemorySocket

pytestmark = pytest.mark.services
NODE = UUID(int=7)
ADDRESS = "10.0.0.5:8000"


@pytest.fixture
def entries(redis_server, settings, monkeypatch):
    """The Redis of two processes, of which the test is one."""
    url = redis_server.url(12)
    settings.PLATFORM = replace(settings.PLATFORM, redis_url=url)
    monkeypatch.setattr(registry, "RENEWAL_SECONDS", 0.02)
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        yield client


def a_link():
    return TunnelLink(MemorySocket(asyncio.Queue(2), asyncio.Queue(2)))


@asynccontextmanager
async def announced(link=None):
    task = asyncio.ensure_future(announce_tunnel(NODE, ADDRESS, link or a_link()))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await close_registry()


async def until_said(entries):
    while not entries.exists(registry._key(NODE)):
        await asyncio.sleep(0.01)


def test_a_holder_is_found_by_others_until_its_tunnel_ends(entries, monkeypatch):
    async def scenario():
        async with announced() as task:
            await until_said(entries)
            assert await find_holder(NODE) is None, "this process is no other one"
            with monkeypatch.context() as other:
                own = registry.PROCESS
                other.setattr(registry, "PROCESS", "another")
                assert await find_holder(NODE) == Holder(own, ADDRESS)
                assert await find_holder(UUID(int=8)) is None
            assert 0 < entries.ttl(registry._key(NODE)) <= registry.TTL_SECONDS
            assert not task.done()
        assert not entries.exists(registry._key(NODE))

    asyncio.run(scenario())


def test_an_announcement_ends_though_the_client_swallows_its_cancellation(entries, monkeypatch):
    """As `asyncio.wait_for` of Python 3.11 does when the answer comes at that moment."""

    class Client:
        def __init__(self, real):
            self.eval = real.eval
            self.is_called = asyncio.Event()

        async def set(self, *_words, **_options):
            self.is_called.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return

    async def scenario():
        client = Client(registry._client())
        monkeypatch.setattr(registry, "_client", lambda: client)
        async with announced() as task:
            await client.is_called.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    asyncio.run(scenario())


def test_a_newer_tunnel_elsewhere_ends_the_older_ones_announcement(entries):
    newer = registry._sealed(NODE, Holder("another", "10.0.0.6:8000"))

    async def scenario():
        async with announced() as task:
            await until_said(entries)
            entries.set(registry._key(NODE), newer)
            await task
        assert entries.get(registry._key(NODE)) == newer.encode(), "the newer one stays"

    asyncio.run(scenario())


def test_a_holder_that_appears_between_look_and_renewal_is_not_overwritten(entries, monkeypatch):
    """The look and the renewal are one step: an entry that comes at the last moment stays."""
    newer = registry._sealed(NODE, Holder("another", "10.0.0.6:8000"))

    async def scenario():
        ours = registry._sealed(NODE, Holder(registry.PROCESS, ADDRESS))
        entries.set(registry._key(NODE), b"of a stranger")
        opened = registry._opened

        def opened_late(node_id, entry):
            # The other process is quicker than this one's second call.
            entries.set(registry._key(NODE), newer)
            return opened(node_id, entry)

        monkeypatch.setattr(registry, "_opened", opened_late)
        assert not await registry._renew(NODE, ours)
        await close_registry()

    asyncio.run(scenario())
    assert entries.get(registry._key(NODE)) == newer.encode()


def test_the_end_of_an_older_tunnel_here_does_not_hide_the_newer_one(entries):
    async def scenario():
        older = a_link()
        with hold_tunnel(NODE, older):
            async with announced(older) as task:
                await until_said(entries)
                with hold_tunnel(NODE, a_link()):
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    assert entries.exists(registry._key(NODE))

    asyncio.run(scenario())


def test_what_a_stranger_writes_is_overwritten(entries):
    async def scenario():
        async with announced() as task:
            await until_said(entries)
            for value in (b"{}", b"x" * 5_000, b"\xff"):
                entries.set(registry._key(NODE), value)
                while entries.get(registry._key(NODE)) == value:
                    await asyncio.sleep(0.01)
            entries.delete(registry._key(NODE))
            entries.rpush(registry._key(NODE), "no text")
            while entries.type(registry._key(NODE)) != b"string":
                await asyncio.sleep(0.01)
            assert not task.done()

    asyncio.run(scenario())
