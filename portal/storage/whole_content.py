"""An object's bytes on their way into Django's storage API."""

from collections.abc import Iterator

from django.core.files.base import File


class WholeContent(File):  # type: ignore[type-arg]  # generic only in the stubs
    """Written at once: in Django's pieces of 64 KiB, 4 MiB would be 64 calls, and each waits for
    the interpreter's lock."""

    def __init__(self, data: bytes | memoryview) -> None:
        super().__init__(None)
        self.data = data
        self.size = len(data)

    def chunks(self, chunk_size: int | None = None) -> Iterator[bytes]:
        yield self.read()

    def read(self, size: int = -1) -> bytes:
        """All of it; bytes are not copied."""
        return bytes(self.data)

    def close(self) -> None:
        """Nothing is open."""
