"""What the shared cache may hold, and how it is written: counts of calls, times of attempts, marks.

Others may write to Redis too, so a value that is read is data of a stranger: no pickle, a bounded
length, and one of the few shapes that this portal writes under that key.
"""

import json
import math
import time
from collections.abc import Callable
from typing import Any

# A list of attempts has at most some hundred times; nothing that the portal writes is longer.
MAX_BYTES = 16_384
MAX_TIMES = 500
# Clocks of web processes differ by less.
FUTURE_SECONDS = 300
# Redis counts in 64 bits; a count of calls stays far below.
MAX_COUNT = 1 << 53
# The longest window of a limit is a day, and a counter may live for two of them.
MAX_SECONDS = 2 * 86_400

# Keys of allauth, whose values are the times of attempts.
TIMES_PREFIX = "allauth:rl:"
# Keys of values that decide who may sign in, such as the certificate of an identity provider.
PRIVATE_PREFIXES = ("saml.metadata.",)


class HostileValueError(ValueError):
    """A value that this portal never writes under that key."""


def is_private(key: str) -> bool:
    """The value is kept by the process that made it, and never read from elsewhere."""
    return key.startswith(PRIVATE_PREFIXES)


def write_value(value: Any) -> bytes:
    """A count, a mark or times as JSON. Raises TypeError for anything else: it is not for here."""
    if not (_is_mark(value) or _is_count(value) or _is_times(value)):
        raise TypeError(f"the shared cache keeps counts and times, no {type(value).__name__}")
    return json.dumps(value, separators=(",", ":")).encode()


def read_value(key: str, data: bytes) -> Any:
    """The value in `data`. Raises HostileValueError if it is not what is kept under `key`."""
    if len(data) > MAX_BYTES:
        raise HostileValueError(f"longer than {MAX_BYTES} bytes")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise HostileValueError(f"no JSON: {type(error).__name__}") from None
    is_expected: Callable[[Any], bool] = _is_times if _has_times(key) else _is_scalar
    if not is_expected(value):
        raise HostileValueError(f"unexpected {type(value).__name__}")
    return value


def _has_times(key: str) -> bool:
    return key.startswith(TIMES_PREFIX) and not key.endswith(":lock")


def _is_scalar(value: Any) -> bool:
    return _is_mark(value) or _is_count(value)


def _is_mark(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and len(value) <= 64)


def _is_count(value: Any) -> bool:
    return type(value) is int and abs(value) <= MAX_COUNT


def _is_times(value: Any) -> bool:
    latest = time.time() + FUTURE_SECONDS
    return (
        isinstance(value, list)
        and len(value) <= MAX_TIMES
        and all(type(at) in (int, float) and math.isfinite(at) and at <= latest for at in value)
    )
