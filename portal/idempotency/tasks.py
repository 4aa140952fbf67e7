"""Keys end after a day, as a duty: one worker at a time."""

from django.utils import timezone

from portal.celery import app
from portal.idempotency.services import RETENTION, responses_expire
from portal.leases.services import run_exclusively
from portal.submission.services import job_keys_expire


@app.task(name="portal.idempotency.tasks.expire")
def expire() -> bool:
    return run_exclusively(name="idempotency", work=keys_expire, rounds=1)


def keys_expire() -> None:
    now = timezone.now()
    responses_expire(now=now)
    job_keys_expire(before=now - RETENTION)
