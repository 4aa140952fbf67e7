"""How many copies a service is to have. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class ScaleBounds:
    """What its owner has set."""

    min_copies: int
    max_copies: int
    calls_per_copy: int
    cool_down: timedelta


@dataclass(frozen=True, slots=True)
class Scale:
    """How many copies there are to be, and how long fewer have been enough."""

    copies: int
    low_since: datetime | None = None
    low_copies: int = 0
    """The most that were needed since then."""


def next_scale(scale: Scale, bounds: ScaleBounds, *, calls: int, now: datetime) -> Scale:
    """The scale for so many calls at once, waiting ones included.

    More copies at once. Fewer only after the cool-down, and then as many as were needed at any time
    of it: one quiet moment between two bursts stops nothing.
    """
    needed = -(-calls // bounds.calls_per_copy)
    needed = min(max(needed, bounds.min_copies), bounds.max_copies)
    copies = min(max(scale.copies, bounds.min_copies), bounds.max_copies)
    if needed >= copies:
        return Scale(needed)
    if scale.low_since is None:
        return Scale(copies, now, needed)
    low = replace(scale, copies=copies, low_copies=max(scale.low_copies, needed))
    if now - scale.low_since < bounds.cool_down or low.low_copies >= copies:
        return low
    return Scale(low.low_copies)
