"""Cache backends that count calls and sign-in attempts, for rate limits. Nothing else is cached."""

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

# A request waits no longer than this for Redis.
ANSWER_SECONDS = 0.2
# Redis is not tried again for this long after it failed.
AWAY_SECONDS = 5.0

log = logging.getLogger(__name__)


def cache_settings(redis_url: str, var: Path) -> dict[str, Any]:
    """Django's CACHES."""
    name, place = (
        ("RedisWithLocalFallback", redis_url)
        if redis_url
        else ("LockedFileCache", str(var / "counts"))
    )
    shared = {"BACKEND": f"{__name__}.{name}", "LOCATION": place, "KEY_PREFIX": "tessera"}
    return {"default": shared}


class RedisWithLocalFallback(RedisCache):
    """Counters in Redis. While Redis is away, each process counts for itself and still serves."""

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
    """Counters in files, for one machine without Redis. Updates are serialised by a lock file."""

    _dir: str
    _createdir: Callable[[], None]
    _key_to_file: Callable[[str, int | None], str]

    def add(self, *args: Any, **kwargs: Any) -> bool:
        with self._lock():
            return bool(super().add(*args, **kwargs))

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """Keeps the expiry time, as Redis does. Raises ValueError if there is no value."""
        with self._lock():
            value = self.get(key, version=version)
            if value is None:
                raise ValueError(f"There is no {key!r} to increment")
            self.set(key, value + delta, self._seconds_left(key, version), version)
        return int(value + delta)

    def _seconds_left(self, key: str, version: int | None) -> float | None:
        # Each file begins with its expiry time.
        try:
            with Path(self._key_to_file(key, version)).open("rb") as file:
                ends = pickle.load(file)  # noqa: S301 - a file of our own
        except FileNotFoundError:
            return 0
        return None if ends is None else ends - time.time()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self._createdir()
        with (Path(self._dir) / "turn").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
