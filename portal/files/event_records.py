"""The records of an event file, as TensorBoard writes it: framing and checksums. Pure.

A record is its length (8 bytes), a checksum of that, its bytes, and a checksum of them.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# A longer record holds pictures or histograms, never only scalars: it is passed over.
MAX_RECORD_BYTES = 64 << 10
# No file has a record of this size: its length is damaged.
MAX_LENGTH = 1 << 40
_HEADER, _CHECKSUM = struct.Struct("<QI"), struct.Struct("<I")
_POLYNOMIAL, _MASK_DELTA = 0x82F63B78, 0xA282EAD8


class RecordsEnd(Exception):
    """The bytes end within a record."""


class RecordDamaged(Exception):
    """A checksum differs, or a record is not what it should be."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """`data` is empty for one that was passed over."""

    data: bytes
    checksum: int

    def check(self) -> None:
        """Raises RecordDamaged. Slow, so only for records that are used."""
        if masked_crc32c(self.data) != self.checksum:
            raise RecordDamaged


def event_records(pieces: Iterable[bytes]) -> Iterator[EventRecord]:
    """Raises RecordsEnd or RecordDamaged."""
    source = _Pieces(pieces)
    while header := source.take(_HEADER.size, may_end=True):
        length, checksum = _HEADER.unpack(header)
        if masked_crc32c(header[:8]) != checksum or length > MAX_LENGTH:
            raise RecordDamaged
        is_kept = length <= MAX_RECORD_BYTES
        data = source.take(length) if is_kept else b""
        if not is_kept:
            source.skip(length)
        (checksum,) = _CHECKSUM.unpack(source.take(_CHECKSUM.size))
        yield EventRecord(data, checksum)


def masked_crc32c(data: bytes) -> int:
    """CRC-32C, rotated and shifted, as checksums of bytes that hold checksums need it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


class _Pieces:
    """Bytes taken in order, with one piece in memory."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._piece, self._at = b"", 0

    def take(self, size: int, *, may_end: bool = False) -> bytes:
        """Raises RecordsEnd. `may_end`: empty if there is nothing more."""
        found = self._some(size)
        while len(found) < size:
            more = self._some(size - len(found))
            if not more:
                if may_end and not found:
                    return b""
                raise RecordsEnd
            found += more
        return found

    def skip(self, size: int) -> None:
        while size:
            if not (skipped := len(self._some(size))):
                raise RecordsEnd
            size -= skipped

    def _some(self, size: int) -> bytes:
        while self._at == len(self._piece):
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._piece, self._at = piece, 0
        found = self._piece[self._at : self._at + size]
        self._at += len(found)
        return found


def _table_entry(crc: int) -> int:
    for _ in range(8):
        crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc


_TABLE = tuple(_table_entry(byte) for byte in range(256))
