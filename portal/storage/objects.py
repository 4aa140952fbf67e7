"""Objects by name in a store, over Django's storage API. No call waits for long or guesses."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, cast

from django.core.files.storage import Storage

from portal.metrics import STORE_BYTES, STORE_SECONDS
from portal.storage.errors import ObjectMissing, StoreUnavailable
from portal.storage.whole_content import WholeContent

log = logging.getLogger(__name__)

# After a failure, further calls of this process fail at once for this long: those that queue behind
# a store that hangs do not each wait for its timeout.
PAUSE_SECONDS = 2.0
# A failure is reported for at most this long, if no other call shows that the store is back.
FAILING_SECONDS = 60.0


class CopyingStorage(Protocol):
    """A storage that copies without reading."""

    def copy(self, source: str, target: str) -> None: ...


class ObjectStore:
    """Whole objects, written once under names that are never used again."""

    def __init__(
        self,
        key: str,
        location: str,
        storage: Storage,
        failures: tuple[type[Exception], ...],
        host: str = "",
    ) -> None:
        self.key = key
        self.location = location
        self.host = host
        self._storage = storage
        self._failures = failures
        self._paused_until = 0.0
        self._failed_at = float("-inf")

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Store the object. When this returns, the store has confirmed all of its bytes. A
        `memoryview` is not to stay in the page cache, see `portal.storage.folder`."""
        with self._calls("put", name):
            try:
                self._put(name, data)
                STORE_BYTES.labels("written").inc(len(data))
            except self._failures:
                # A part of it is of no use, and what is sent again gets a new name.
                with suppress(*self._failures):
                    self._storage.delete(name)
                raise

    def _put(self, name: str, data: bytes | memoryview) -> None:
        try:
            saved = self._storage.save(name, WholeContent(data))
            size = self._storage.size(saved) if saved == name else -1
        except FileNotFoundError:
            size = 0
        if size != len(data):
            raise OSError(f"kept {size} of {len(data)} bytes")

    def get(self, name: str, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`. Raises ObjectMissing."""
        with self._calls("get", name), self._storage.open(name) as file:
            file.seek(offset)
            data = bytes(file.read(size))
            STORE_BYTES.labels("read").inc(len(data))
            return data

    def copy(self, source: str, target: str) -> None:
        """Store an object under another name as well; in a bucket only. Raises ObjectMissing."""
        with self._calls("copy", source):
            cast("CopyingStorage", self._storage).copy(source, target)

    def size(self, name: str) -> int:
        """The object's bytes. Raises ObjectMissing."""
        with self._calls("size", name):
            return int(self._storage.size(name))

    def delete(self, name: str) -> None:
        """Remove the object; one that is gone is fine."""
        with self._calls("delete", name):
            self._storage.delete(name)

    def names(self, folder: str) -> list[str]:
        """The objects directly below `folder`; none if there is no such folder."""
        try:
            with self._calls("list", folder):
                return [f"{folder}/{name}" for name in self._storage.listdir(folder)[1]]
        except ObjectMissing:
            return []

    @property
    def is_failing(self) -> bool:
        """The last call of this process failed, and not long ago."""
        return time.monotonic() < self._failed_at + FAILING_SECONDS

    @contextmanager
    def _calls(self, verb: str, name: str) -> Iterator[None]:
        if time.monotonic() < self._paused_until:
            raise StoreUnavailable(f"{self.location} failed a moment ago")
        begun = time.monotonic()
        try:
            yield
            self._failed_at = float("-inf")
            _observe(verb, "done", begun)
        except FileNotFoundError as error:
            _observe(verb, "missing", begun)
            raise ObjectMissing(name) from error
        except self._failures as error:
            _observe(verb, "failed", begun)
            self._failed_at = time.monotonic()
            self._paused_until = self._failed_at + PAUSE_SECONDS
            log.warning("store %s: %s %s failed: %s", self.location, verb, name, error)
            raise StoreUnavailable(f"{verb} {name} at {self.location}: {error}") from error


def _observe(verb: str, outcome: str, begun: float) -> None:
    STORE_SECONDS.labels(verb, outcome).observe(time.monotonic() - begun)
