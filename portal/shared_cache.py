"""Cache backends that count calls and sign-in attempts, for rate limits. Nothing else is shared.

A stranger who can write to Redis can lift a limit or trip it, and nothing more: values are read as
`portal.shared_counts` says, and one that is not of this portal is logged, removed and a miss.
"""

import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError, ResponseError

from portal.shared_counts import (
    MAX_BYTES,
    MAX_COUNT,
    MAX_SECONDS,
    HostileValueError,
    is_private,
    read_value,
    write_value,
)

# A request waits no longer than this for Redis.
ANSWER_SECONDS = 0.2
# Redis is not tried again for this long after it failed.
AWAY_SECONDS = 5.0
# Before version 2, values were pickles.
VERSION = 2
# What Redis answers where the value at a key is not of the type of the command.
WRONG_VALUES = ("WRONGTYPE", "value is not an integer", "would overflow")

log = logging.getLogger(__name__)


def cache_settings(redis_url: str, var: Path) -> dict[str, Any]:
    """Django's CACHES."""
    backend, place = (
        (f"{__name__}.RedisWithLocalFallback", redis_url)
        if redis_url
        else ("portal.file_cache.LockedFileCache", str(var / "counts"))
    )
    shared = {"BACKEND": backend, "LOCATION": place, "KEY_PREFIX": "tessera", "VERSION": VERSION}
    return {"default": shared}


class CountClient:
    """Commands on counts: reads at most `MAX_BYTES`, and believes only what `read_value` knows."""

    def __init__(self, url: str) -> None:
        self._redis: Any = redis.Redis.from_url(
            url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS
        )

    def add(self, key: str, value: Any, timeout: int | None) -> bool:
        # `ex=0` is an error in Redis.
        if timeout == 0:
            return not self.has_key(key)
        data = write_value(value)
        added, seconds = self._add(key, data, timeout)
        if not added and not _ends(seconds):
            self._miss(key, "it never ends", None)
            added, _ = self._add(key, data, timeout)
        return added

    def _add(self, key: str, data: bytes, timeout: int | None) -> tuple[bool, int]:
        """Whether it was added, and for how many seconds there is a value now."""
        pipe = self._redis.pipeline(transaction=False)
        added, seconds = pipe.set(key, data, ex=timeout, nx=True).ttl(key).execute()
        return bool(added), seconds

    def set(self, key: str, value: Any, timeout: int | None) -> None:
        if timeout == 0:
            self._redis.delete(key)
        else:
            self._redis.set(key, write_value(value), ex=timeout)

    def get(self, key: str, default: Any) -> Any:
        pipe = self._redis.pipeline(transaction=False)
        try:
            data, seconds = pipe.getrange(key, 0, MAX_BYTES).ttl(key).execute()
            if not data:
                return default
            if not _ends(seconds):
                return self._miss(key, "it never ends", default)
            return read_value(plain_key(key), data)
        except HostileValueError as error:
            return self._miss(key, error, default)
        except ResponseError as error:
            if not _is_wrong_value(error):
                raise
            return self._miss(key, error, default)

    def touch(self, key: str, timeout: int | None) -> bool:
        return bool(self._redis.expire(key, timeout or 0))

    def delete(self, key: str) -> bool:
        return bool(self._redis.delete(key))

    def has_key(self, key: str) -> bool:
        return bool(self._redis.exists(key))

    def clear(self) -> bool:
        return bool(self._redis.flushdb())

    def incr(self, key: str, delta: int) -> int:
        """Raises ValueError if there is no count."""
        pipe = self._redis.pipeline(transaction=False)
        try:
            count, seconds = pipe.incr(key, delta).ttl(key).execute()
        except ResponseError as error:
            if not _is_wrong_value(error):
                raise
            self._miss(key, error, None)
        else:
            if _ends(seconds) and abs(count) <= MAX_COUNT:
                return int(count)
            # INCR has just made it, where there was none; or a stranger did.
            self._redis.delete(key)
        raise ValueError(f"There is no {key!r} to increment")

    def count(self, key: str, delta: int, timeout: int) -> int:
        """`incr`, after `add` of 0: together one way to Redis and back."""
        pipe = self._redis.pipeline(transaction=False)
        pipe.set(key, write_value(0), ex=timeout, nx=True).incrby(key, delta).ttl(key)
        try:
            _, count, seconds = pipe.execute()
        except ResponseError as error:
            if not _is_wrong_value(error):
                raise
            self._miss(key, error, None)
        else:
            if _ends(seconds) and abs(count) <= MAX_COUNT:
                return int(count)
            self._miss(key, "it never ends, or is no count", None)
        self.add(key, 0, timeout)
        return self.incr(key, delta)

    def _miss(self, key: str, why: Exception | str, default: Any) -> Any:
        log.warning("Redis held a value that is not of this portal at %.200r: %s", key, why)
        self._redis.delete(key)
        return default


def plain_key(key: str) -> str:
    """The key as the code names it, without "tessera:2:" before it."""
    return key.split(":", 2)[-1]


def _ends(seconds: int) -> bool:
    """A value of this portal ends. Redis answers -1 for one that does not, -2 for one that has."""
    return seconds != -1 and seconds <= MAX_SECONDS


def _is_wrong_value(error: ResponseError) -> bool:
    return any(words in str(error) for words in WRONG_VALUES)


class RedisWithLocalFallback(RedisCache):
    """Counters in Redis. While Redis is away, each process counts for itself and still serves."""

    away_until = 0.0

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._url = server
        self._local = LocMemCache("while-redis-is-away", params)
        self._private = LocMemCache("never-shared", params)

    def count(self, key: str, delta: int, timeout: int) -> int:
        """The count at `key`, begun for `timeout` seconds if there is none, with `delta` more."""
        if time.monotonic() >= RedisWithLocalFallback.away_until:
            try:
                return self._cache.count(self.make_and_validate_key(key), delta, timeout)
            except (RedisError, OSError) as error:
                _stay_away(error)
        self._local.add(key, 0, timeout)
        return int(self._local.incr(key, delta))

    @property
    def _cache(self) -> CountClient:  # type: ignore[override]  # Django's own reads pickles
        return _client(self._url)


def _or_local(name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(RedisCache, name))
    def call(self: RedisWithLocalFallback, *args: Any, **kwargs: Any) -> Any:
        key = str(kwargs.get("key", args[0] if args else ""))
        if is_private(key):
            return getattr(self._private, name)(*args, **kwargs)
        if time.monotonic() >= RedisWithLocalFallback.away_until:
            try:
                return getattr(RedisCache, name)(self, *args, **kwargs)
            except (RedisError, OSError) as error:
                _stay_away(error)
        return getattr(self._local, name)(*args, **kwargs)

    return call


def _stay_away(error: Exception) -> None:
    RedisWithLocalFallback.away_until = time.monotonic() + AWAY_SECONDS
    log.warning("Redis is away, this process counts for itself: %s", error)


for _name in ("add", "get", "set", "touch", "delete", "has_key", "incr", "clear"):
    setattr(RedisWithLocalFallback, _name, _or_local(_name))
# One by one: Redis' own commands for several values have no bound.
for _name in ("get_many", "set_many", "delete_many"):
    setattr(RedisWithLocalFallback, _name, getattr(BaseCache, _name))


@functools.cache
def _client(url: str) -> CountClient:
    return CountClient(url)
