"""The task that sends monthly reports: one worker at a time; nothing without a mail server."""

from django.conf import settings
from django.utils import timezone

from portal.celery import app
from portal.leases.services import run_exclusively
from portal.usage.report import previous_month
from portal.usage.services import reports_send


@app.task(name="portal.usage.tasks.monthly_report")
def monthly_report() -> bool:
    """Send last month's reports that were not sent yet."""
    if not settings.MAIL_IS_SET:
        return False
    return run_exclusively(name="monthly_report", work=_report, rounds=1)


def _report() -> None:
    now = timezone.now()
    month = previous_month(timezone.localtime(now).date())
    reports_send(month=month, sender=settings.DEFAULT_FROM_EMAIL, now=now)
