"""Counters in files, for one machine without Redis: a JSON file for each key, one lock for all."""

import fcntl
import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.cache.backends.locmem import LocMemCache

from portal.shared_counts import HostileValueError, is_private, read_value, write_value

# Expired counters are looked for when there are more files than this, and twice as many again.
CLEAN_ABOVE = 512


class LockedFileCache(BaseCache):
    """Updates are serialised by a lock file, so processes of one machine count together.

    A file holds when it ends (epoch seconds, or null) and the value. Its folder is the portal's
    alone, but it is read no less carefully than Redis.
    """

    def __init__(self, folder: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._folder = Path(folder)
        self._clean_above = CLEAN_ABOVE
        self._private = LocMemCache("never-shared", params)

    def add(
        self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        with self._lock():
            if self._entry(key, version) is not None:
                return False
            self._write(key, value, self.get_backend_timeout(timeout), version)
            return True

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        entry = self._entry(key, version)
        return default if entry is None else entry[1]

    def set(
        self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        with self._lock():
            self._write(key, value, self.get_backend_timeout(timeout), version)

    def touch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        with self._lock():
            entry = self._entry(key, version)
            if entry is None:
                return False
            self._write(key, entry[1], self.get_backend_timeout(timeout), version)
            return True

    def delete(self, key: str, version: int | None = None) -> bool:
        try:
            self._path(key, version).unlink()
        except FileNotFoundError:
            return False
        return True

    def has_key(self, key: str, version: int | None = None) -> bool:
        return self._entry(key, version) is not None

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """Keeps the time when it ends, as Redis does. Raises ValueError if there is no count."""
        with self._lock():
            entry = self._entry(key, version)
            if entry is None or type(entry[1]) is not int:
                raise ValueError(f"There is no {key!r} to increment")
            self._write(key, entry[1] + delta, entry[0], version)
            return int(entry[1] + delta)

    def clear(self) -> None:
        for path in self._folder.glob("*.json"):
            path.unlink(missing_ok=True)

    def _path(self, key: str, version: int | None) -> Path:
        full = self.make_and_validate_key(key, version=version)
        return self._folder / (hashlib.sha256(full.encode()).hexdigest() + ".json")

    def _entry(self, key: str, version: int | None) -> tuple[float | None, Any] | None:
        """When it ends, and the value; None where there is none, or no longer."""
        entry = _read(key, self._path(key, version))
        if entry is None or (entry[0] is not None and entry[0] <= time.time()):
            return None
        return entry

    def _write(self, key: str, value: Any, ends: float | None, version: int | None) -> None:
        path = self._path(key, version)
        text = f"{json.dumps(ends)}\n".encode() + write_value(value)
        is_new = not path.exists()
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(text)
        part.replace(path)
        if is_new:
            self._clean()

    def _clean(self) -> None:
        """Remove what has ended, so that strangers' addresses do not fill the folder."""
        paths = list(self._folder.glob("*.json"))
        if len(paths) <= self._clean_above:
            return
        for path in paths:
            ends = _ends(path)
            if ends is not None and ends <= time.time():
                path.unlink(missing_ok=True)
        left = sum(1 for _ in self._folder.glob("*.json"))
        self._clean_above = max(CLEAN_ABOVE, 2 * left)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / "turn").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _or_private(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: LockedFileCache, key: str, *args: Any, **kwargs: Any) -> Any:
        if is_private(key):
            return getattr(self._private, method.__name__)(key, *args, **kwargs)
        return method(self, key, *args, **kwargs)

    return call


for _name in ("add", "get", "set", "touch", "delete", "has_key", "incr"):
    setattr(LockedFileCache, _name, _or_private(getattr(LockedFileCache, _name)))


def _read(key: str, path: Path) -> tuple[float | None, Any] | None:
    try:
        ends, _, data = path.read_bytes().partition(b"\n")
        return _number(ends), read_value(key, data)
    except (FileNotFoundError, HostileValueError):
        return None


def _ends(path: Path) -> float | None:
    with suppress(OSError), path.open("rb") as file:
        return _number(file.readline(64))
    return None


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        # null: for ever.
        return None
