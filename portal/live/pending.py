"""Rings that a task is on its way for. A bell that is rung again meanwhile sends no second task.

The task takes the ring before it reads rows, so a ring after that sends another. In Redis, or as
files under `var`. A ring here is a hint: where it cannot be written or read, tasks are sent and
done once too often; where one is left behind, the sweep sends its task again.
"""

import logging
import os
import time
from functools import cache
from pathlib import Path

import redis
from django.conf import settings

# A task that is not begun by then counts as lost.
SECONDS = 60
PREFIX = "tessera:pending:"
# Redis is not waited for longer than this.
ANSWER_SECONDS = 0.2

log = logging.getLogger(__name__)


def mark(key: str) -> bool:
    """Note that a task is on its way for `key`; False if one was already."""
    platform = settings.PLATFORM
    try:
        if platform.redis_url:
            return bool(_client(platform.redis_url).set(PREFIX + key, 1, nx=True, ex=SECONDS))
        return _mark_file(_folder() / key)
    except (redis.RedisError, OSError) as error:
        log.debug("ring %s was not noted: %s", key, error)
        return True


def renew(key: str) -> None:
    """Note that another task is on its way."""
    platform = settings.PLATFORM
    try:
        if platform.redis_url:
            _client(platform.redis_url).set(PREFIX + key, 1, ex=SECONDS)
        else:
            _touch(_folder() / key)
    except (redis.RedisError, OSError) as error:
        log.debug("ring %s was not noted: %s", key, error)


def is_marked(key: str) -> bool:
    """Whether a task is on its way for `key`; it stays so. False where that cannot be read."""
    platform = settings.PLATFORM
    try:
        if platform.redis_url:
            return bool(_client(platform.redis_url).exists(PREFIX + key))
        return 0 <= time.time() - _noted_at(_folder() / key) <= SECONDS
    except (redis.RedisError, OSError) as error:
        log.debug("ring %s was not read: %s", key, error)
        return False


def take(key: str) -> bool:
    """Whether a ring was pending; it no longer is. Call it before reading rows."""
    platform = settings.PLATFORM
    try:
        if platform.redis_url:
            return bool(_client(platform.redis_url).delete(PREFIX + key))
        (_folder() / key).unlink()
    except FileNotFoundError:
        return False
    except (redis.RedisError, OSError) as error:
        log.debug("ring %s was not read: %s", key, error)
    return True


def forget_files() -> None:
    """For tests, each of which has a database of its own."""
    for path in _folder().glob("*"):
        path.unlink(missing_ok=True)


def _folder() -> Path:
    return Path(settings.PLATFORM.var) / "pending"


def _mark_file(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileNotFoundError:
        _touch(path)
    except FileExistsError:
        if 0 <= time.time() - _noted_at(path) <= SECONDS:
            return False
        _touch(path)
    return True


def _noted_at(path: Path) -> float:
    """By the machine's clock; 0 if it was taken meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0


def _touch(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(0o600)


@cache
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS
    )
