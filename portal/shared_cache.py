"""Counts that all web processes share: of calls, and of tries to sign in. Nothing else is cached.

`RedisWithLocalFallback`: in Redis; while it is away, each process counts for itself and everything is still
answered. `LockedFileCache`: in files, for installations without Redis.
"""

import fcntl
import functools
import logging
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.cache.backends.filebased import FileBasedCache
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache, RedisCacheClient
from redis.exceptions import RedisError

# A call does not wait longer than this for a count.
ANSWER_SECONDS = 0.2
# How long Redis is left alone after it did not answer.
AWAY_SECONDS = 5.0

log = logging.getLogger(__name__)


def cache_settings(redis_url: str, var: Path) -> dict[str, Any]:
    """Django's CACHES."""
    name, place = ("RedisWithLocalFallback", redis_url) if redis_url else ("LockedFileCache", str(var / "counts"))
    shared = {"BACKEND": f"{__name__}.{name}", "LOCATION": place, "KEY_PREFIX": "tessera"}
    return {"default": shared}


class RedisWithLocalFallback(RedisCache):
    """One connection pool for the process, whichever thread or task counts."""

    away_until = 0.0

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._url = server
        self._local = LocMemCache("while-redis-is-away", params)

    @property
    def _cache(self) -> RedisCacheClient:
        return _client(self._url)


def _or_local(name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(RedisCache, name))
    def call(self: RedisWithLocalFallback, *args: Any, **kwargs: Any) -> Any:
        if time.monotonic() >= RedisWithLocalFallback.away_until:
            try:
                return getattr(RedisCache, name)(self, *args, **kwargs)
            except (RedisError, OSError) as error:
                RedisWithLocalFallback.away_until = time.monotonic() + AWAY_SECONDS
                log.warning("Redis is away, this process counts for itself: %s", error)
        return getattr(self._local, name)(*args, **kwargs)

    return call


for _name in ("add", "get", "set", "touch", "delete", "has_key", "incr", "clear"):
    setattr(RedisWithLocalFallback, _name, _or_local(_name))


@functools.cache
def _client(url: str) -> RedisCacheClient:
    return RedisCacheClient(
        [url], socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS
    )


class LockedFileCache(FileBasedCache):
    """Files, with one process at a time where a value depends on the last."""

    _dir: str
    _createdir: Callable[[], None]
    _key_to_file: Callable[[str, int | None], str]

    def add(self, *args: Any, **kwargs: Any) -> bool:
        with self._turn():
            return bool(super().add(*args, **kwargs))

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """Keeps the time at which it ends, as Redis does. Raises ValueError without a value."""
        with self._turn():
            value, left = self.get(key, version=version), self._left(key, version)
            if value is None:
                raise ValueError(f"There is no {key!r} to count on")
            self.set(key, value + delta, left, version)
        return int(value + delta)

    def _left(self, key: str, version: int | None) -> float | None:
        # Each file begins with the time at which it ends.
        try:
            with Path(self._key_to_file(key, version)).open("rb") as file:
                ends = pickle.load(file)  # noqa: S301 - a file of our own
        except FileNotFoundError:
            return 0
        return None if ends is None else ends - time.time()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._createdir()
        with (Path(self._dir) / "turn").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
