"""Which process holds the tunnel of a node: in Redis, for as long as the holder says so.

A stranger in Redis can hide a holder, or end a tunnel with an entry of yesterday, and nothing more:
an entry counts only with the portal's own signature, which names the node.
"""

import asyncio
import json
import logging
import secrets
from dataclasses import dataclass
from uuid import UUID
from weakref import WeakKeyDictionary

import redis.asyncio
from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac
from redis.exceptions import RedisError

from agents.tunnel.link import TunnelLink
from portal.tunnel.held import held_tunnel

PREFIX = "tessera:tunnel:"
SALT = "portal.tunnel.registry"
# An entry that is not renewed is gone after this time; it is renewed three times as often.
TTL_SECONDS = 30
RENEWAL_SECONDS = 10.0
ANSWER_SECONDS = 2.0
MAX_BYTES = 1_024
# This process, among all of the portal.
PROCESS = secrets.token_hex(8)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a tunnel, and where the others reach it."""

    process: str
    address: str
    """HOST:PORT at which the proxy, and so each web process, reaches it."""


# One client for each event loop.
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, "redis.asyncio.Redis"] = WeakKeyDictionary()


async def announce_tunnel(node_id: UUID, address: str, link: TunnelLink) -> None:
    """Say that this process holds the node's tunnel, `link`. Returns once another one says so: the
    node has opened a tunnel there since, and this one is of a connection that is gone. Without
    Redis, and so with one web process, there is nobody to tell."""
    if not settings.PLATFORM.redis_url:
        await asyncio.Event().wait()
    entry = _sealed(node_id, Holder(PROCESS, address))
    is_said = False
    try:
        while not is_said or await find_holder(node_id) is None:
            try:
                await _client().set(_key(node_id), entry, ex=TTL_SECONDS)
                is_said = True
            except (RedisError, OSError) as error:
                log.warning("other web processes may not find a tunnel: %s", error)
            await asyncio.sleep(RENEWAL_SECONDS)
    finally:
        # The entry of a newer tunnel that this process holds is the same.
        if held_tunnel(node_id) in (None, link):
            await _withdraw(node_id, entry)


async def find_holder(node_id: UUID) -> Holder | None:
    """The other process that holds the node's tunnel, if one says so."""
    if not settings.PLATFORM.redis_url:
        return None
    try:
        entry = await _client().getrange(_key(node_id), 0, MAX_BYTES)
    except (RedisError, OSError) as error:
        log.warning("tunnels of other web processes are not found: %s", error)
        return None
    holder = _opened(node_id, entry) if entry else None
    return holder if holder and holder.process != PROCESS else None


async def close_registry() -> None:
    """Of the running loop, at its end."""
    if client := _clients.pop(asyncio.get_running_loop(), None):
        await client.aclose()


async def _withdraw(node_id: UUID, entry: str) -> None:
    """Unless another process has said so since. One that says so between the two calls says it
    again soon."""
    try:
        if await _client().get(_key(node_id)) == entry.encode():
            await _client().delete(_key(node_id))
    except (RedisError, OSError):
        # It ends by itself.
        return


def _client() -> "redis.asyncio.Redis":
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        _clients[loop] = redis.asyncio.Redis.from_url(
            settings.PLATFORM.redis_url,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
        )
    return _clients[loop]


def _key(node_id: UUID) -> str:
    return f"{PREFIX}{node_id}"


def _sealed(node_id: UUID, holder: Holder) -> str:
    signature = _signature(node_id, holder)
    entry = {"process": holder.process, "address": holder.address, "signature": signature}
    return json.dumps(entry, separators=(",", ":"))


def _opened(node_id: UUID, entry: bytes | str) -> Holder | None:
    try:
        data = json.loads(entry)
        holder = Holder(str(data["process"]), str(data["address"]))
        signature = str(data["signature"])
    except (ValueError, TypeError, KeyError):
        return None
    is_ours = constant_time_compare(signature, _signature(node_id, holder))
    return holder if is_ours else None


def _signature(node_id: UUID, holder: Holder) -> str:
    text = json.dumps([str(node_id), holder.process, holder.address])
    return salted_hmac(SALT, text, algorithm="sha256").hexdigest()
