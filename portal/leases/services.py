"""Run work under a lease: at most one worker at a time, with one more round if it is rung."""

import time
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from math import inf
from typing import Any

from django.db.models import CharField
from django.db.models.functions import Now

from portal.database.kept_queries import KeptSelect, KeptUpdate
from portal.leases.claims import Claim, WrongClockError, lease_claim
from portal.leases.models import TaskLease


def run_exclusively(
    *,
    name: str,
    work: Callable[[], object],
    is_due: Callable[[], bool] = lambda: True,
    rounds: int = 20,
    seconds: float = inf,
    ring_again: Callable[[], None] = lambda: None,
    is_rung: Callable[[], bool] = lambda: False,
    pass_on: Callable[[], None] = lambda: None,
) -> bool:
    """Run `work` under the lease `name`, and again while it is rung: at most `rounds` times, and no
    round begins when `seconds` have passed. If it is rung even then, `ring_again` is called once
    the lease is free: the task that it starts does the next round, with a time limit of its own.

    `is_due` is called at the start of each round, under the lease; a round that is not due is over.

    Returns False if another worker holds the lease. In that case the ring is set before the claim
    is tried again, and the holder looks for it after it has given the lease back: one of the two
    does another round.

    `is_rung` looks for rings that have sent a task of their own: a round that begins at once finds
    less waiting than that task would. Past the limits it is left to that task.

    `pass_on` is called where this worker may not have the lease, as its clock is wrong: nobody else
    knows of the ring that it took from the broker.
    """
    claim, begun = lease_claim(name), time.monotonic()
    for number in count(1):
        try:
            if not _round(claim, name, work, is_due):
                return number > 1
        except WrongClockError:
            pass_on()
            return number > 1
        is_left = _ring_clear(name)
        if not (is_left or is_rung()):
            break
        if number >= rounds or time.monotonic() - begun >= seconds:
            if is_left:
                ring_again()
            break
    return True


def done_within(name: str, seconds: float) -> bool:
    """Whether a round was completed in the last `seconds`, by the database's clock. A task of the
    clock that has waited is not due then: another one has done its work."""
    since = Now() - timedelta(seconds=seconds)
    return TaskLease.objects.filter(name=name, stamped_at__gt=since).exists()


def continuation_read(name: str) -> Any:
    """What the last round of this work left for the next one; None if it came to its end."""
    return next(iter(_CONTINUATION.rows(name)), None)


_CONTINUATION = KeptSelect(
    lambda name: TaskLease.objects.filter(name=name).values_list("continuation", flat=True),
    CharField(),
)


def continuation_write(name: str, continuation: Any) -> None:
    """`continuation`: JSON, or None."""
    _write(name, continuation=continuation)


def _round(claim: Claim, name: str, work: Callable[[], object], is_due: Callable[[], bool]) -> bool:
    """One round under the lease. False if another worker holds it."""
    try:
        if not (claim.take() or _ring_and_take(claim, name)):
            return False
        if is_due():
            work()
            _write(name, stamped_at=Now())
        return True
    finally:
        claim.give_back()


def _ring_and_take(claim: Claim, name: str) -> bool:
    """Ring the holder, then try again: the lease may be free by now."""
    _write(name, rung=True)
    if not claim.take():
        return False
    _ring_clear(name)
    return True


def _ring_clear(name: str) -> bool:
    """Clear the ring, before the rows of the next round are read; whether it was set."""
    return _CLEARED.write(name) == 1


_CLEARED = KeptUpdate(
    lambda name: TaskLease.objects.filter(name=name, rung=True),
    lambda name: {"rung": False},
    CharField(),
)


def _write(name: str, **columns: Any) -> None:
    """Update the lease's row, which is created at first use."""
    row = TaskLease.objects.filter(name=name)
    if not row.update(**columns):
        TaskLease.objects.get_or_create(name=name)
        row.update(**columns)
