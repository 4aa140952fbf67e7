"""Duties: at most one worker does each, and a ring during the work asks for one more round."""

import uuid
from collections.abc import Callable
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from portal.leases.models import Duty

LEASE_DURATION = timedelta(seconds=60)


def run_exclusively(*, name: str, work: Callable[[], None], rounds: int = 20) -> bool:
    """Do `work` as the only worker, again as long as it is rung meanwhile. False: another has it.

    Where another has it, the ring is set before the claim is tried again, so either this call or
    the present holder sees it. A holder that died is replaced when its lease ends.
    """
    token = str(uuid.uuid4())
    if not _claim(name, token) and not _ring_and_claim(name, token):
        return False
    try:
        for number in range(rounds):
            if number:
                Duty.objects.filter(name=name).update(rung=False)
            work()
            if _release(name, token):
                return True
    except BaseException:
        Duty.objects.filter(name=name, token=token).update(token="", expires_at=None)
        raise
    Duty.objects.filter(name=name, token=token).update(token="", expires_at=None)
    return True


def _claim(name: str, token: str) -> bool:
    """Take it, with the rings so far: the work that follows answers them."""
    now = timezone.now()
    free = Duty.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__lt=now), name=name)
    return free.update(token=token, expires_at=now + LEASE_DURATION, rung=False) == 1


def _ring_and_claim(name: str, token: str) -> bool:
    """The first time there is no such duty yet."""
    Duty.objects.get_or_create(name=name)
    Duty.objects.filter(name=name).update(rung=True)
    return _claim(name, token)


def _release(name: str, token: str) -> bool:
    """Give the duty back unless it was rung meanwhile; then it is kept for one more round."""
    mine = Duty.objects.filter(name=name, token=token)
    now = timezone.now()
    if mine.filter(rung=False).update(token="", expires_at=None, stamped_at=now):
        return True
    mine.update(expires_at=now + LEASE_DURATION, stamped_at=now)
    return not mine.exists()
