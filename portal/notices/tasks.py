"""The task that tells people, one worker at a time."""

from django.conf import settings
from django.utils import timezone

from portal.celery import app
from portal.leases.deadlines import deadline
from portal.leases.services import done_within, run_exclusively
from portal.live.bell import answer_notices, ring_notices
from portal.notices.collection import LEASE, notices_collect
from portal.notices.dispatch import mails_refuse, mails_send, notices_forget, notices_gather

# Tasks that have waited in the queue together tell once.
PAUSE_SECONDS = 2.0
# A round begins no further step after this time, and no step is long, except for a mail server that
# does not answer. What is left is a task of its own: the sweep waits for no burst of notices.
ROUND_SECONDS = 1.0


@app.task(name="portal.notices.tasks.deliver")
def deliver() -> bool:
    return run_exclusively(name=LEASE, is_due=_is_due, work=_round, rounds=1)


def _is_due() -> bool:
    return answer_notices() or not done_within(LEASE, PAUSE_SECONDS)


def _round() -> None:
    platform, now, is_over = settings.PLATFORM, timezone.now(), deadline(ROUND_SECONDS)
    base_url, sender = platform.public_url.rstrip("/"), settings.DEFAULT_FROM_EMAIL
    is_left = notices_collect(now, mails=settings.MAIL_IS_SET, should_stop=is_over)
    is_left |= notices_gather(now, base_url=base_url, should_stop=is_over)
    if settings.MAIL_IS_SET:
        is_left |= mails_send(now, sender=sender, base_url=base_url, should_stop=is_over)
    else:
        mails_refuse()
    notices_forget(now)
    if is_left:
        ring_notices()
