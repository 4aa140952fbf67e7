"""The task that delivers webhooks, one worker at a time."""

from portal.celery import app
from portal.leases.services import done_within, run_exclusively
from portal.webhooks.delivery import webhooks_deliver

# Tasks that have waited in the queue together deliver once.
PAUSE_SECONDS = 2.0


@app.task(name="portal.webhooks.tasks.deliver")
def deliver() -> bool:
    return run_exclusively(
        name="webhooks",
        is_due=lambda: not done_within("webhooks", PAUSE_SECONDS),
        work=webhooks_deliver,
        rounds=1,
    )
