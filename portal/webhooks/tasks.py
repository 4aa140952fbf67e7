"""The bell of webhooks."""

from portal.celery import app
from portal.leases.services import duty_do
from portal.webhooks.delivery import deliver_once


@app.task(name="portal.webhooks.tasks.deliver")
def deliver() -> bool:
    return duty_do(name="webhooks", work=deliver_once, rounds=1)
