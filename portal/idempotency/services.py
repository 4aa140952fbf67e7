"""Claim a key, keep what was answered under it, or let it go.

    key_claim(user=…, key=…, asked=digest) ->
        Kept:  answer with it; nothing is carried out
        Claim: carry it out, then answer_keep, or key_release where it was refused

A key is kept 24 hours. A claim whose process died is taken over after a minute; what makes rows has
its own guard against a second one (`Job.idempotency_key`, unique names).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from portal.accounts.models import User
from portal.errors import Refused
from portal.idempotency.models import KeptAnswer

RETENTION = timedelta(hours=24)
# Longer than any call takes.
ABANDONED_AFTER = timedelta(seconds=60)
RETRY_SECONDS = 2


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The first answer, byte for byte."""

    status: int
    headers: dict[str, str]
    body: str


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """The right to carry a call out; gone where another took the key over."""

    row_id: int
    begun_at: datetime


def key_claim(*, user: User, key: str, request_digest: str) -> KeyClaim | StoredResponse:
    """Raises Refused(idempotency_mismatch) where the key was used for another call, and
    Refused(idempotency_running) while the same one is being carried out."""
    now = timezone.now()
    row, is_new = KeptAnswer.objects.get_or_create(
        user=user, key=key, defaults={"asked": request_digest, "begun_at": now}
    )
    if is_new:
        return KeyClaim(row.pk, row.begun_at)
    if row.begun_at <= now - RETENTION:
        return _taken_over(row, request_digest, now)
    if row.asked != request_digest:
        sentence = "This Idempotency-Key was used for another request. Use a new key"
        raise Refused("idempotency_mismatch", sentence, "", 422)
    if row.status is not None:
        return StoredResponse(row.status, row.headers, row.body)
    if row.begun_at <= now - ABANDONED_AFTER:
        return _taken_over(row, request_digest, now)
    raise _running()


def response_store(*, claim: KeyClaim, response: StoredResponse) -> None:
    """What is answered from now on under this key."""
    _mine(claim).update(status=response.status, headers=response.headers, body=response.body)


def key_release(*, claim: KeyClaim) -> None:
    """Nothing came of it: the key may be used anew."""
    _mine(claim).delete()


def responses_expire(*, now: datetime) -> None:
    """Forget the keys that were kept long enough."""
    KeptAnswer.objects.filter(begun_at__lte=now - RETENTION).delete()


def _taken_over(row: KeptAnswer, asked: str, now: datetime) -> KeyClaim:
    """Guarded by what was read: another call may have been quicker."""
    fresh = {"asked": asked, "begun_at": now, "status": None, "headers": {}, "body": ""}
    if _mine(KeyClaim(row.pk, row.begun_at)).update(**fresh) != 1:
        raise _running()
    return KeyClaim(row.pk, now)


def _mine(claim: KeyClaim) -> QuerySet[KeptAnswer]:
    return KeptAnswer.objects.filter(pk=claim.row_id, begun_at=claim.begun_at)


def _running() -> Refused:
    sentence = "The same request is being carried out under this key. Ask again in a moment"
    return Refused("idempotency_running", sentence, "", 409, retry_seconds=RETRY_SECONDS)
