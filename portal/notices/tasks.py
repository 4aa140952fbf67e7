"""The task that tells people, one worker at a time."""

from django.conf import settings
from django.utils import timezone

from portal.celery import app
from portal.leases.services import done_within, run_exclusively
from portal.notices.collection import LEASE, notices_collect
from portal.notices.dispatch import mails_refuse, mails_send, notices_forget, notices_gather

# Tasks that have waited in the queue together tell once.
PAUSE_SECONDS = 2.0


@app.task(name="portal.notices.tasks.deliver")
def deliver() -> bool:
    return run_exclusively(
        name=LEASE, is_due=lambda: not done_within(LEASE, PAUSE_SECONDS), work=_round, rounds=1
    )


def _round() -> None:
    platform, now = settings.PLATFORM, timezone.now()
    base_url = platform.public_url.rstrip("/")
    notices_collect(now, mails=settings.MAIL_IS_SET)
    notices_gather(now, base_url=base_url)
    if settings.MAIL_IS_SET:
        mails_send(now, sender=settings.DEFAULT_FROM_EMAIL, base_url=base_url)
    else:
        mails_refuse()
    notices_forget(now)
