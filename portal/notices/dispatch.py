"""Notices that wait become mails and chat messages: a burst is one, and nobody gets many an hour.

A message is a row before it is sent, and marked afterwards. A worker that dies in between leaves it
due again: at least once, and twice only then. No network call is made inside a transaction.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from smtplib import SMTPException
from typing import Any

from django.core.mail import get_connection
from django.db import transaction
from django.db.models import Min, QuerySet
from django.utils import timezone

from portal.accounts.models import User
from portal.notices.kinds import NoticeKind
from portal.notices.mail import notice_mail
from portal.notices.mail_problems import MailProblem, error_text, mail_problem
from portal.notices.models import Notice, NoticeMail
from portal.notices.reader import in_reader_terms
from portal.notices.selectors import readable_notices
from portal.notices.sentences import Digest, digest
from portal.webhooks.chat import ChatFormat, ChatLine, chat_body
from portal.webhooks.models import Delivery, Endpoint
from portal.webhooks.values import DeliveryStatus, retry_delay

log = logging.getLogger(__name__)

# From the first notice of a burst to its message.
GATHER = timedelta(seconds=20)
# Between two messages to the same person or chat.
PAUSE = timedelta(minutes=5)
# People, and chats, of one round, and its mails; what is left follows in another.
RECIPIENTS = 50
SEND_BATCH = 16
# Longer than any attempt takes. After that, another worker may send it.
CLAIM_DURATION = timedelta(seconds=60)
RETENTION = timedelta(days=30)
# A budget is told of once, however long it lasts.
BUDGET_RETENTION = timedelta(days=400)
NOTICE_DELIVERY = "notice"


def notices_gather(
    now: datetime, *, base_url: str, should_stop: Callable[[], bool] = lambda: False
) -> bool:
    """Make messages of the notices whose readers are due for one: a transaction for each reader.

    `should_stop` is called between two readers. Returns whether some may be left."""
    waiting = Notice.objects.filter(gathered_at__isnull=True, created_at__lte=now - GATHER)
    mails = NoticeMail.objects.filter(is_test=False, created_at__gt=now - PAUSE)
    people = _due(waiting, "recipient_id", mails.values("recipient_id"))
    messages = Delivery.objects.filter(kind=NOTICE_DELIVERY, created_at__gt=now - PAUSE)
    chats = _due(waiting, "endpoint_id", messages.values("endpoint_id"))
    steps = [partial(_gather_mail, pk, now) for pk in people]
    steps += [partial(_gather_chat, pk, now, base_url) for pk in chats]
    for number, step in enumerate(steps):
        if number and should_stop():
            return True
        step()
    return RECIPIENTS in (len(people), len(chats))


def mails_send(
    now: datetime, *, sender: str, base_url: str, should_stop: Callable[[], bool] = lambda: False
) -> bool:
    """Send the mails that are due, one after the other. A server that does not answer one is not
    asked for the next ones in this round.

    `should_stop` is called between two mails. Returns whether some may be left that could be sent
    now."""
    due = NoticeMail.objects.filter(status=DeliveryStatus.WAITING, next_at__lte=now)
    rows = list(due.select_related("recipient").order_by("next_at", "id")[:SEND_BATCH])
    for number, row in enumerate(rows):
        if number and should_stop():
            return True
        if row.tries and retry_delay(row.tries) is None:
            _record(row, DeliveryStatus.FAILED, problem=row.problem or MailProblem.CUT_OFF)
        elif _claim(row) and _send(row, sender, base_url) is MailProblem.NO_ANSWER:
            return False
    return len(rows) == SEND_BATCH


def mails_refuse() -> None:
    """Without a mail server: a test says so, instead of waiting for ever."""
    NoticeMail.objects.filter(status=DeliveryStatus.WAITING).update(
        status=DeliveryStatus.FAILED, next_at=None, problem=MailProblem.NO_SERVER
    )


def notices_forget(now: datetime) -> None:
    """Delete what was sent long ago."""
    old = Notice.objects.filter(gathered_at__lt=now - RETENTION)
    old.exclude(kind=NoticeKind.BUDGET).delete()
    Notice.objects.filter(gathered_at__lt=now - BUDGET_RETENTION).delete()
    NoticeMail.objects.filter(created_at__lt=now - RETENTION).delete()


def _due(waiting: QuerySet[Notice], column: str, paused: QuerySet[Any, Any]) -> list[int]:
    """The people, or the chats, whose turn it is: those with the oldest notices first."""
    rows = waiting.filter(**{f"{column}__isnull": False}).exclude(**{f"{column}__in": paused})
    oldest = rows.values(column).annotate(oldest=Min("created_at")).order_by("oldest", column)
    return list(oldest.values_list(column, flat=True)[:RECIPIENTS])


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
        chat = Endpoint.objects.select_related("owner").filter(pk=endpoint).first()
        if chat is None:
            return
        pks = _lock_waiting(endpoint_id=endpoint)
        notices = Notice.objects.filter(pk__in=pks)
        if chat.project_id is None:
            notices = readable_notices(notices, chat.owner)
        with in_reader_terms(chat.owner):
            found = digest(notices, base_url)
            body = _chat_body(chat, found) if found else ""
        if body:
            due = timezone.now()
            Delivery.objects.create(endpoint=chat, kind=NOTICE_DELIVERY, body=body, next_at=due)
        Notice.objects.filter(pk__in=pks).update(gathered_at=now)


def _chat_body(chat: Endpoint, found: Digest) -> str:
    lines = [ChatLine(line.text, line.href) for line in found.lines]
    if found.notice_count > 1:
        lines.insert(0, ChatLine(found.headline))
    return chat_body(ChatFormat(chat.format), lines, found.hidden)


def _lock_waiting(**owner: int) -> list[int]:
    rows = Notice.objects.filter(gathered_at__isnull=True, **owner)
    return list(rows.select_for_update().order_by("id").values_list("pk", flat=True))


def _claim(row: NoticeMail) -> bool:
    """Claim a mail; False if another worker was quicker. The try counts from here on, so that one
    that ends its worker is not made for ever."""
    unclaimed = NoticeMail.objects.filter(
        pk=row.pk, next_at=row.next_at, status=DeliveryStatus.WAITING
    )
    row.tries += 1
    return unclaimed.update(next_at=timezone.now() + CLAIM_DURATION, tries=row.tries) == 1


def _send(row: NoticeMail, sender: str, base_url: str) -> MailProblem | None:
    """What kept the mail from being sent, if anything did."""
    notices = readable_notices(Notice.objects.filter(mail=row), row.recipient)
    message = None
    if _may_receive(row.recipient):
        message = notice_mail(row, notices, sender=sender, base_url=base_url)
    if message is None:
        # Nothing is left to tell: it was never sent, and no page says that it was.
        row.delete()
        return None
    try:
        get_connection().send_messages([message])
    except (OSError, SMTPException, ValueError) as error:
        problem = mail_problem(error)
        log.warning("a notice was not mailed: %s", error_text(error))
        delay = None if problem.is_permanent else retry_delay(row.tries)
        _record(row, DeliveryStatus.WAITING if delay else DeliveryStatus.FAILED, delay, problem)
        return problem
    _record(row, DeliveryStatus.DELIVERED)
    return None


def _may_receive(user: User) -> bool:
    return user.is_active and bool(user.email)


def _record(
    row: NoticeMail, status: DeliveryStatus, delay: timedelta | None = None, problem: str = ""
) -> None:
    now = timezone.now()
    NoticeMail.objects.filter(pk=row.pk).update(
        status=status,
        next_at=now + delay if delay else None,
        sent_at=now if status is DeliveryStatus.DELIVERED else None,
        problem=problem,
    )
