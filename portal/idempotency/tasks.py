"""Forget idempotency keys after a day."""

from django.utils import timezone

from portal.celery import app
from portal.idempotency.services import responses_expire
from portal.leases.services import run_exclusively


@app.task(name="portal.idempotency.tasks.expire")
def expire() -> bool:
    return run_exclusively(name="idempotency", work=keys_expire, rounds=1)


def keys_expire() -> None:
    responses_expire(now=timezone.now())
