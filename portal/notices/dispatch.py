"""Notices that wait become mails and chat messages: a burst is one, and nobody gets many an hour.

A message is a row before it is sent, and marked afterwards. A worker that dies in between leaves it
due again: at least once, and twice only then. No network call is made inside a transaction.
"""

import logging
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from smtplib import SMTPException, SMTPRecipientsRefused

from django.core.mail import get_connection
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from portal.accounts.models import User
from portal.notices.kinds import NoticeKind
from portal.notices.mail import notice_mail
from portal.notices.models import Notice, NoticeMail
from portal.notices.reader import in_reader_terms
from portal.notices.sentences import digest
from portal.webhooks.chat import ChatFormat, ChatLine, chat_body
from portal.webhooks.models import Delivery, Endpoint
from portal.webhooks.values import DeliveryStatus, retry_delay

log = logging.getLogger(__name__)

# From the first notice of a burst to its message.
GATHER = timedelta(seconds=20)
# Between two messages to the same person or chat.
PAUSE = timedelta(minutes=5)
RECIPIENTS = 200
SEND_BATCH = 16
SEND_SECONDS = 15.0
# Longer than any attempt takes. After that, another worker may send it.
CLAIM_DURATION = timedelta(seconds=60)
RETENTION = timedelta(days=30)
# A budget is told of once, however long it lasts.
BUDGET_RETENTION = timedelta(days=400)
NOTICE_DELIVERY = "notice"
NO_SERVER = "This portal has no mail server: an admin sets TESSERA_EMAIL_URL"
PERMANENT_CODES = range(500, 600)


def notices_gather(now: datetime, *, base_url: str) -> None:
    """Make messages of the notices whose readers are due for one."""
    waiting = Notice.objects.filter(gathered_at__isnull=True, created_at__lte=now - GATHER)
    people = list(_due(waiting, "recipient_id"))
    paused = NoticeMail.objects.filter(
        recipient_id__in=people, is_test=False, created_at__gt=now - PAUSE
    )
    for pk in set(people) - set(paused.values_list("recipient_id", flat=True)):
        _gather_mail(pk, now)
    chats = list(_due(waiting, "endpoint_id"))
    busy = Delivery.objects.filter(
        endpoint_id__in=chats, kind=NOTICE_DELIVERY, created_at__gt=now - PAUSE
    )
    for pk in set(chats) - set(busy.values_list("endpoint_id", flat=True)):
        _gather_chat(pk, now, base_url)


def mails_send(now: datetime, *, sender: str, base_url: str) -> None:
    """Send the mails that are due, one after the other, for at most SEND_SECONDS."""
    due = NoticeMail.objects.filter(status=DeliveryStatus.WAITING, next_at__lte=now)
    rows = list(due.select_related("recipient").order_by("next_at", "id")[:SEND_BATCH])
    end = time.monotonic() + SEND_SECONDS
    for row in rows:
        if time.monotonic() > end:
            break
        if _claim(row):
            _send(row, sender, base_url)


def mails_refuse() -> None:
    """Without a mail server: a test says so, instead of waiting for ever."""
    NoticeMail.objects.filter(status=DeliveryStatus.WAITING).update(
        status=DeliveryStatus.FAILED, next_at=None, problem=NO_SERVER
    )


def notices_forget(now: datetime) -> None:
    """Delete what was sent long ago."""
    old = Notice.objects.filter(gathered_at__lt=now - RETENTION)
    old.exclude(kind=NoticeKind.BUDGET).delete()
    Notice.objects.filter(gathered_at__lt=now - BUDGET_RETENTION).delete()
    NoticeMail.objects.filter(created_at__lt=now - RETENTION).delete()


def _due(waiting: QuerySet[Notice], column: str) -> Iterable[int]:
    """The people, or the chats, of these notices."""
    rows = waiting.filter(**{f"{column}__isnull": False}).order_by(column)
    return rows.values_list(column, flat=True).distinct()[:RECIPIENTS]


def _gather_mail(recipient: int, now: datetime) -> None:
    with transaction.atomic():
        pks = _lock_waiting(recipient_id=recipient)
        if not pks:
            return
        mail = NoticeMail.objects.create(recipient_id=recipient, created_at=now, next_at=now)
        Notice.objects.filter(pk__in=pks).update(mail=mail, gathered_at=now)


def _gather_chat(endpoint: int, now: datetime, base_url: str) -> None:
    """One message of the chat's notices, which the webhooks deliver."""
    with transaction.atomic():
        chat = Endpoint.objects.select_related("owner").get(pk=endpoint)
        pks = _lock_waiting(endpoint_id=endpoint)
        notices = list(Notice.objects.filter(pk__in=pks).select_related("job").order_by("id"))
        with in_reader_terms(chat.owner):
            found = digest(notices, base_url)
        if found is not None:
            lines = [ChatLine(line.text, line.href) for line in found.lines]
            if len(notices) > 1:
                lines.insert(0, ChatLine(found.headline))
            if found.hidden:
                lines.append(ChatLine(f"+ {found.hidden}"))
            body = chat_body(ChatFormat(chat.format), lines)
            due = timezone.now()
            Delivery.objects.create(endpoint=chat, kind=NOTICE_DELIVERY, body=body, next_at=due)
        Notice.objects.filter(pk__in=pks).update(gathered_at=now)


def _lock_waiting(**owner: int) -> list[int]:
    rows = Notice.objects.filter(gathered_at__isnull=True, **owner)
    return list(rows.select_for_update().order_by("id").values_list("pk", flat=True))


def _claim(row: NoticeMail) -> bool:
    """Claim a mail; False if another worker was quicker."""
    unclaimed = NoticeMail.objects.filter(
        pk=row.pk, next_at=row.next_at, status=DeliveryStatus.WAITING
    )
    return unclaimed.update(next_at=timezone.now() + CLAIM_DURATION) == 1


def _send(row: NoticeMail, sender: str, base_url: str) -> None:
    notices = list(row.notices.select_related("job").order_by("id"))
    message = None
    if _may_receive(row.recipient):
        message = notice_mail(row, notices, sender=sender, base_url=base_url)
    if message is None:
        _record(row, DeliveryStatus.DELIVERED)
        return
    try:
        get_connection().send_messages([message])
    except (OSError, SMTPException) as error:
        problem = f"{type(error).__name__}: {error}"[:200]
        log.warning("a notice was not mailed: %s", type(error).__name__)
        delay = None if _is_permanent(error) else retry_delay(row.tries + 1)
        _record(row, DeliveryStatus.WAITING if delay else DeliveryStatus.FAILED, delay, problem)
        return
    _record(row, DeliveryStatus.DELIVERED)


def _may_receive(user: User) -> bool:
    return user.is_active and bool(user.email)


def _is_permanent(error: Exception) -> bool:
    """The server will never take a mail to this address."""
    if not isinstance(error, SMTPRecipientsRefused):
        return False
    return all(code in PERMANENT_CODES for code, _ in error.recipients.values())


def _record(
    row: NoticeMail, status: DeliveryStatus, delay: timedelta | None = None, problem: str = ""
) -> None:
    now = timezone.now()
    NoticeMail.objects.filter(pk=row.pk).update(
        status=status,
        tries=row.tries + 1,
        next_at=now + delay if delay else None,
        sent_at=now if status is DeliveryStatus.DELIVERED else None,
        problem=problem,
    )
