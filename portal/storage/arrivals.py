"""When the bytes of a segment arrived: (offset, milliseconds) pairs, packed. Pure."""

import struct
from collections.abc import Iterable

PAIR = struct.Struct("<QQ")
PAUSE_MILLISECONDS = 1_000
MAX_PAIRS = 4_096


def pack_arrivals(pairs: Iterable[tuple[int, int]]) -> bytes:
    """At most one pair a second, and at most 4,096: then every other one is dropped."""
    kept: list[tuple[int, int]] = []
    for offset, at in sorted(pairs):
        if not kept or not kept[-1][1] <= at < kept[-1][1] + PAUSE_MILLISECONDS:
            kept.append((offset, at))
    while len(kept) > MAX_PAIRS:
        kept = kept[::2]
    return b"".join(PAIR.pack(*pair) for pair in kept)


def unpack_arrivals(packed: bytes) -> list[tuple[int, int]]:
    return [(offset, at) for offset, at in PAIR.iter_unpack(packed)]
