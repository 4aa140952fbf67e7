"""Run work under a lease: at most one worker at a time, with one more round if it is rung."""

import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Any

from django.db.models import Q
from django.utils import timezone

from portal.leases.models import TaskLease

LEASE_DURATION = timedelta(seconds=60)


def run_exclusively(
    *,
    name: str,
    work: Callable[[], object],
    rounds: int = 20,
    seconds: float = inf,
    ring_again: Callable[[], None] = lambda: None,
) -> bool:
    """Run `work` under the lease `name`, and again while it is rung: at most `rounds` times, and no
    round begins when `seconds` have passed. If it is rung even then, `ring_again` is called once
    the lease is free: the task that it starts does the next round, with a time limit of its own.

    Returns False if another worker holds the lease. In that case the ring is set before the claim
    is tried again, so that either this call or the holder sees it. The lease of a holder that died
    expires.
    """
    token, begun = str(uuid.uuid4()), time.monotonic()
    if not _claim(name, token) and not _ring_and_claim(name, token):
        return False
    try:
        for number in range(rounds):
            if number:
                TaskLease.objects.filter(name=name).update(rung=False)
            work()
            if _release(name, token):
                return True
            if time.monotonic() - begun >= seconds:
                break
    except BaseException:
        TaskLease.objects.filter(name=name, token=token).update(token="", expires_at=None)
        raise
    TaskLease.objects.filter(name=name, token=token).update(token="", expires_at=None)
    ring_again()
    return True


def continuation_read(name: str) -> Any:
    """What the last round of this work left for the next one; None if it came to its end."""
    return TaskLease.objects.filter(name=name).values_list("continuation", flat=True).first()


def continuation_write(name: str, continuation: Any) -> None:
    """`continuation`: JSON, or None."""
    TaskLease.objects.filter(name=name).update(continuation=continuation)


def _claim(name: str, token: str) -> bool:
    """Take the lease and clear its ring: the work that follows answers all rings so far."""
    now = timezone.now()
    free = TaskLease.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__lt=now), name=name)
    return free.update(token=token, expires_at=now + LEASE_DURATION, rung=False) == 1


def _ring_and_claim(name: str, token: str) -> bool:
    """Ring the holder, then try again. Creates the row at first use."""
    TaskLease.objects.get_or_create(name=name)
    TaskLease.objects.filter(name=name).update(rung=True)
    return _claim(name, token)


def _release(name: str, token: str) -> bool:
    """Release the lease; renew it for one more round if it was rung meanwhile."""
    own = TaskLease.objects.filter(name=name, token=token)
    now = timezone.now()
    if own.filter(rung=False).update(token="", expires_at=None, stamped_at=now):
        return True
    own.update(expires_at=now + LEASE_DURATION, stamped_at=now)
    return not own.exists()
