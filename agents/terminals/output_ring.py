"""The last bytes of a terminal's output."""

# Above what may be under way to a client: the windows of two tunnels, and of the relay between.
RING_BYTES = 768 << 10


class OutputRing:
    """Bytes by their offset in the whole output, of which the first are forgotten."""

    def __init__(self, limit: int = RING_BYTES) -> None:
        self._limit = limit
        self._data = bytearray()
        self.start = 0

    @property
    def end(self) -> int:
        return self.start + len(self._data)

    def append(self, data: bytes) -> None:
        self._data += data
        excess = len(self._data) - self._limit
        if excess > 0:
            del self._data[:excess]
            self.start += excess

    def has(self, offset: int) -> bool:
        """Whether the output goes on from there without a gap."""
        return self.start <= offset <= self.end

    def read(self, offset: int, limit: int) -> bytes:
        """Bytes from an offset that it has; b"" at the end."""
        at = offset - self.start
        return bytes(self._data[at : at + limit])
