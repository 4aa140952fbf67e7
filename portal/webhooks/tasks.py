"""The bell of webhooks."""

from portal.celery import app
from portal.duties.services import duty_do
from portal.webhooks.duty import deliver_once


@app.task(name="portal.webhooks.tasks.deliver")
def deliver() -> bool:
    return duty_do(name="webhooks", work=deliver_once, rounds=1)
