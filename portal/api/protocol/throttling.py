"""How often one user may call REST, counted over all web processes."""

import math
from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import UserRateThrottle

from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record


class SharedThrottle(UserRateThrottle):
    """A fixed number of calls in each window, over all web processes.

    The rates are in REST_FRAMEWORK. A call that is turned away does not count.
    """

    num_requests: int
    duration: int

    def allow_request(self, request: Request, view: Any) -> bool:
        window, passed = divmod(self.timer(), self.duration)
        self.left = self.duration - passed
        # Two counters take turns: each has expired before its turn comes again.
        key = f"{self.get_cache_key(request, view)}:{int(window) % 2}"
        self.cache.add(key, 0, math.ceil(self.left))
        if self._add(key, 1) <= self.num_requests:
            return True
        self._add(key, -1)
        security_event_record(
            AuditAction.THROTTLED, noun="rest", noun_id=str(getattr(request.user, "username", ""))
        )
        return False

    def wait(self) -> float:
        return self.left

    def _add(self, key: str, amount: int) -> int:
        try:
            return int(self.cache.incr(key, amount))
        except ValueError:
            # The counter expired between `add` and `incr`.
            return 1


class CallThrottle(SharedThrottle):
    """How often one user may call."""

    scope = "call"


class SubmitThrottle(SharedThrottle):
    """How often one user may submit."""

    scope = "submit"
