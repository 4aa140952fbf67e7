"""Calls as one user as often as it is told: run as a program, several at once.

Prints how many calls were let through, of `calls` with `most` a day.
"""

import sys
from types import SimpleNamespace
from typing import Any

import django

if __name__ == "__main__":
    django.setup()

from portal.api.protocol.throttling import CallThrottle


def let_through(calls: int, most: int) -> int:
    request: Any = SimpleNamespace(user=SimpleNamespace(is_authenticated=True, pk=7))

    class Throttle(CallThrottle):
        rate = f"{most}/day"
        # One day for all of them, whenever it is.
        timer = staticmethod(lambda: 86_400.0)

    return sum(Throttle().allow_request(request, None) for _ in range(calls))


if __name__ == "__main__":
    sys.stdout.write(str(let_through(int(sys.argv[1]), int(sys.argv[2]))))
