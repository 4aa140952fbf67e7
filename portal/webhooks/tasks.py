"""The task that delivers webhooks, one worker at a time."""

from portal.celery import app
from portal.leases.services import run_exclusively
from portal.webhooks.delivery import webhooks_deliver


@app.task(name="portal.webhooks.tasks.deliver")
def deliver() -> bool:
    return run_exclusively(name="webhooks", work=webhooks_deliver, rounds=1)
