"""Bells through a real Redis, also when it dies and comes back."""

import asyncio
from dataclasses import replace

import pytest
from django.db import transaction

from portal.live.bell import KEYS_TOGETHER, ring
from portal.live.listener import listener, subscribe

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services]


def ring_both():
    """More of them than a message takes."""
    with transaction.atomic():
        for number in range(1, 2 * KEYS_TOGETHER):
            ring(f"job:{number + 2}")
        ring("job:1")
        ring("job:2")
    transaction.get_connection().close()


def test_rings_pass_through_redis_and_its_return_wakes_everybody(settings, redis_server):
    settings.PLATFORM = replace(settings.PLATFORM, redis_url=redis_server.url(9))

    async def scenario():
        with subscribe("job:1") as one, subscribe("job:2") as other:
            # The first connection wakes everybody: it may have come after a ring.
            assert await one.wait(300)
            assert await other.wait(300)
            await asyncio.to_thread(ring, "job:1")
            assert await one.wait(300)
            assert not other.is_rung
            await asyncio.to_thread(redis_server.kill)
            # Nobody hears it, and nobody fails.
            await asyncio.to_thread(ring, "job:1")
            redis_server.start()  # in this thread: a child ends with the thread that started it
            assert await one.wait(300)
            assert await other.wait(300)
            await asyncio.to_thread(ring, "job:2")
            assert await other.wait(300)
            await asyncio.to_thread(ring_both)
            assert await one.wait(300)
            assert await other.wait(300)

    async def run_scenario():
        try:
            await scenario()
        finally:
            await listener().close()

    asyncio.run(run_scenario())
