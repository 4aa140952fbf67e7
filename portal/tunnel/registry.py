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
# Sets the entry (1) for so many seconds (2) where there is none, or what the caller has seen (3);
# else returns what is there, at most so many bytes (4). A value of another type is a stranger's.
RENEW = """
local there = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[4])
if type(there) == 'string' and there ~= '' and there ~= ARGV[1] and there ~= ARGV[3] then
  return there
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return ''
"""
WITHDRAW = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"
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
        while True:
            try:
                if is_said and not await _renew(node_id, entry):
                    return
                if not is_said:
                    await _client().set(_key(node_id), entry, ex=TTL_SECONDS)
                    is_said = True
            except (RedisError, OSError) as error:
                log.warning("other web processes may not find a tunnel: %s", error)
            _end_if_cancelled()
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


async def _renew(node_id: UUID, entry: str) -> bool:
    """Say it again, in one step with the look whether another process says so: then nothing is
    changed, and the answer is False. What a stranger wrote there is overwritten."""
    seen = b""
    while True:
        found = await _client().eval(RENEW, 1, _key(node_id), entry, TTL_SECONDS, seen, MAX_BYTES)
        if not found:
            return True
        holder = _opened(node_id, found)
        if holder and holder.process != PROCESS:
            return False
        seen = found


def _end_if_cancelled() -> None:
    """Raises CancelledError if the client has swallowed one: `asyncio.wait_for`, by which it sends,
    does so before Python 3.12 where both come at once (python/cpython#86296)."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _withdraw(node_id: UUID, entry: str) -> None:
    """Unless another process has said so since."""
    try:
        await _client().eval(WITHDRAW, 1, _key(node_id), entry)
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
