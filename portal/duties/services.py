"""Duties: at most one worker does each, and a ring during the work asks for one more round."""

import uuid
from collections.abc import Callable
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from portal.duties.models import Duty

LEASE = timedelta(seconds=60)


def duty_do(*, name: str, work: Callable[[], None], rounds: int = 20) -> bool:
    """Do `work` as the only worker, again as long as it is rung meanwhile. False: another has it.

    The ring is set before the claim is tried, so either this call or the present holder sees it.
    A holder that died is replaced when its lease ends.
    """
    Duty.objects.get_or_create(name=name)
    Duty.objects.filter(name=name).update(rung=True)
    token = str(uuid.uuid4())
    if not _claim(name, token):
        return False
    try:
        for _ in range(rounds):
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
    now = timezone.now()
    free = Duty.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__lt=now), name=name)
    return free.update(token=token, expires_at=now + LEASE) == 1


def _release(name: str, token: str) -> bool:
    """Give the duty back unless it was rung meanwhile; then it is kept for one more round."""
    mine = Duty.objects.filter(name=name, token=token)
    now = timezone.now()
    if mine.filter(rung=False).update(token="", expires_at=None, stamped_at=now):
        return True
    mine.update(expires_at=now + LEASE, stamped_at=now)
    return not mine.exists()
