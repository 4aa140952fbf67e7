"""The one mechanism by which a call sent twice runs once, for REST and for forms.

    key_claim(user, key, request_digest) ─▶ StoredResponse: replay it, run nothing
                                         └▶ KeyClaim: run the call, then response_store,
                                                      or key_release if it was refused

Store the response in the transaction that does the work: then a crash leaves both or neither. Keys
are kept for 24 hours. A claim whose process died is taken over after a minute.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from portal.accounts.models import User
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.idempotency.models import IdempotencyRecord

RETENTION = timedelta(hours=24)
# Longer than any call takes.
ABANDONED_AFTER = timedelta(seconds=60)
RETRY_SECONDS = 2


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The first response, byte for byte."""

    status: int
    headers: dict[str, str]
    body: str


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """The right to run a call; lost when another call takes the key over."""

    row_id: int
    begun_at: datetime


def call_digest(*parts: object) -> str:
    """What makes two calls the same: JSON values, such as a path and a body."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def run_once(
    *, user: User, key: str, request_digest: str, run: Callable[[], StoredResponse]
) -> StoredResponse:
    """Run the call in one transaction with its key. The same call at the same moment waits for this
    one and gets its response; if `run` raises, the key stays free.

    Raises Refused(idempotency_mismatch).
    """
    with transaction.atomic():
        claimed = key_claim(user=user, key=key, request_digest=request_digest)
        if isinstance(claimed, StoredResponse):
            return claimed
        response = run()
        response_store(claim=claimed, response=response)
        return response


def key_claim(*, user: User, key: str, request_digest: str) -> KeyClaim | StoredResponse:
    """Raises Refused(idempotency_mismatch) where the key was used for another call, and
    Refused(idempotency_running) while the same call is running."""
    now = timezone.now()
    row, is_new = IdempotencyRecord.objects.get_or_create(
        user=user, key=key, defaults={"request_digest": request_digest, "begun_at": now}
    )
    if is_new:
        return KeyClaim(row.pk, row.begun_at)
    if row.begun_at <= now - RETENTION:
        return _take_over(row, request_digest, now)
    if row.request_digest != request_digest:
        sentence = "This Idempotency-Key was used for another request. Use a new key"
        raise Refused(ErrorCode.IDEMPOTENCY_MISMATCH, sentence)
    if row.status is not None:
        return StoredResponse(row.status, row.headers, row.body)
    if row.begun_at <= now - ABANDONED_AFTER:
        return _take_over(row, request_digest, now)
    raise _running()


def response_store(*, claim: KeyClaim, response: StoredResponse) -> None:
    """Keep the response under the claimed key. Raises Refused(idempotency_running) where the claim
    was taken over: the caller's transaction must not commit."""
    columns = {"status": response.status, "headers": response.headers, "body": response.body}
    if _claimed_row(claim).update(**columns) != 1:
        raise _running()


def key_release(*, claim: KeyClaim) -> None:
    """Free the key: the call had no effect."""
    _claimed_row(claim).delete()


def responses_expire(*, now: datetime) -> None:
    """Forget keys older than RETENTION."""
    IdempotencyRecord.objects.filter(begun_at__lte=now - RETENTION).delete()


def _take_over(row: IdempotencyRecord, request_digest: str, now: datetime) -> KeyClaim:
    """The update is guarded by what was read: another call may have been quicker."""
    fresh = {
        "request_digest": request_digest,
        "begun_at": now,
        "status": None,
        "headers": {},
        "body": "",
    }
    if _claimed_row(KeyClaim(row.pk, row.begun_at)).update(**fresh) != 1:
        raise _running()
    return KeyClaim(row.pk, now)


def _claimed_row(claim: KeyClaim) -> QuerySet[IdempotencyRecord]:
    return IdempotencyRecord.objects.filter(pk=claim.row_id, begun_at=claim.begun_at)


def _running() -> Refused:
    sentence = "The same request is still running under this key. Try again in a moment"
    return Refused(ErrorCode.IDEMPOTENCY_RUNNING, sentence, retry_seconds=RETRY_SECONDS)
