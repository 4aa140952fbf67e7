"""Time budgets: work in steps asks between two of them whether its time is over."""

import time
from collections.abc import Callable


def deadline(seconds: float) -> Callable[[], bool]:
    """A function that returns True once `seconds` have passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end
