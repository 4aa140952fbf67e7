"""Keys end after a day, as a duty: one worker at a time."""

from django.utils import timezone

from portal.celery import app
from portal.idempotency.services import KEPT_FOR, answers_expire
from portal.leases.services import duty_do
from portal.submission.services import job_keys_expire


@app.task(name="portal.idempotency.tasks.expire")
def expire() -> bool:
    return duty_do(name="idempotency", work=expire_once, rounds=1)


def expire_once() -> None:
    now = timezone.now()
    answers_expire(now=now)
    job_keys_expire(before=now - KEPT_FOR)
