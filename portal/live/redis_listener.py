"""Rings through Redis, for installations with several machines or web processes."""

import asyncio
import logging
import random
import re
from collections.abc import Callable, Iterable

import redis.asyncio
from redis.exceptions import RedisError

from portal.live.bell import CHANNEL, KEYS_TOGETHER, SEPARATOR

FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
KEY = re.compile(r"[a-z_]{1,32}(:[A-Za-z0-9_.-]{1,64})?")
# How often a silent connection is checked.
CHECK_SECONDS = 10

log = logging.getLogger(__name__)


async def receive_redis_rings(
    url: str, fan_out: Callable[[Iterable[str]], None], wake_all: Callable[[], None]
) -> None:
    """Receive rings until cancelled. After a disconnection, all waiters are woken."""
    wait = FIRST_WAIT_SECONDS
    while True:
        try:
            async with (
                redis.asyncio.Redis.from_url(
                    url, socket_connect_timeout=CHECK_SECONDS, health_check_interval=CHECK_SECONDS
                ) as client,
                client.pubsub() as subscription,
            ):
                await subscription.subscribe(CHANNEL)
                wait = FIRST_WAIT_SECONDS
                await _pass_on(subscription, fan_out, wake_all)
        except (RedisError, OSError) as error:
            log.warning("no rings from Redis, trying again: %s", error)
        await asyncio.sleep(wait * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret
        wait = min(wait * 2, LONGEST_WAIT_SECONDS)


async def _pass_on(
    subscription: redis.asyncio.client.PubSub,
    fan_out: Callable[[Iterable[str]], None],
    wake_all: Callable[[], None],
) -> None:
    while True:
        message = await subscription.get_message(timeout=CHECK_SECONDS)
        if message is None:
            continue
        if message["type"] == "subscribe":
            # Rings before this confirmation were missed.
            wake_all()
        elif message["type"] == "message":
            keys = message["data"].decode(errors="replace").split(SEPARATOR, KEYS_TOGETHER)
            # A stranger in Redis can wake waiters, which then read the database, and nothing more.
            fan_out(key for key in keys if KEY.fullmatch(key))
