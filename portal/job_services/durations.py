"""How long calls take, as counts between fixed bounds: counts of several processes add up. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

# Upper bounds in milliseconds, each 1.5 times the one before: 1 ms to about 16 minutes. A
# percentile is too high by half at most.
BOUNDS_MS = tuple(round(1.5**power, 1) for power in range(35))


def duration_counts(seconds: Iterable[float]) -> list[int]:
    """How many of these are up to each bound, and in the last place how many are beyond all."""
    counts = [0] * (len(BOUNDS_MS) + 1)
    for each in seconds:
        counts[bisect_left(BOUNDS_MS, each * 1_000)] += 1
    return counts


def counts_sum(several: Iterable[Sequence[int]]) -> list[int]:
    """Those of several processes together. A list of another length, of another version, is left
    out."""
    counts = [0] * (len(BOUNDS_MS) + 1)
    for each in several:
        if len(each) == len(counts):
            counts = [a + b for a, b in zip(counts, each, strict=True)]
    return counts


def percentile_ms(counts: Sequence[int], share: float) -> float | None:
    """The bound up to which this share of the calls is; None without calls."""
    total, seen = sum(counts), 0
    if not total:
        return None
    for bound, count in zip(BOUNDS_MS, counts, strict=False):
        seen += count
        if seen >= share * total:
            return bound
    return BOUNDS_MS[-1]
