"""How often one user may call REST, counted over all web processes."""

import math
from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.throttling import UserRateThrottle

from agents.contract.message import Message
from portal.accounts.models import User
from portal.audit.codes import AuditAction
from portal.audit.security_events import security_event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused


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
        cost = self.cost(request, view)
        if self._count(key, cost) <= self.num_requests:
            return True
        self._add(key, -cost)
        security_event_record(
            AuditAction.THROTTLED, noun="rest", noun_id=str(getattr(request.user, "username", ""))
        )
        return False

    def cost(self, request: Request, view: Any) -> int:
        """What this call counts as."""
        return 1

    def wait(self) -> float:
        return self.left

    def _count(self, key: str, amount: int) -> int:
        """The calls in this window, with `amount` more."""
        seconds = math.ceil(self.left)
        if hasattr(self.cache, "count"):
            return int(self.cache.count(key, amount, seconds))
        self.cache.add(key, 0, seconds)
        return self._add(key, amount)

    def _add(self, key: str, amount: int) -> int:
        try:
            return int(self.cache.incr(key, amount))
        except ValueError:
            # The counter expired between `add` and `incr`.
            return amount


class CallThrottle(SharedThrottle):
    """How often one user may call."""

    scope = "call"


def require_rate(user: User) -> None:
    """Count a call that does not pass REST framework, such as a WebSocket, with those of its user.
    Raises Refused(throttled)."""
    request = Request(HttpRequest())
    request.user = user
    if not CallThrottle().allow_request(request, None):
        raise Refused(ErrorCode.THROTTLED, "Too many calls in a short time. Try again in a minute")


class SubmitThrottle(SharedThrottle):
    """How many jobs one user may submit. A view of many at once has a `throttle_cost`."""

    scope = "submit"

    def cost(self, request: Request, view: Any) -> int:
        """Raises Refused(too_many) for a call that could never be allowed."""
        jobs = int(view.throttle_cost(request)) if hasattr(view, "throttle_cost") else 1
        if jobs > self.num_requests:
            sentence = Message(
                "This portal takes at most %(n)s jobs in one call: submit the rest a minute later",
                n=self.num_requests,
            )
            raise Refused(ErrorCode.TOO_MANY_ITEMS, sentence, "jobs")
        return jobs
