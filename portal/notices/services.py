"""What people choose about their notices, and the mail that shows that they arrive."""

from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import User
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.notices.kinds import ADMIN_KINDS, NoticeKind
from portal.notices.models import MAX_MINUTES, NoticeMail, NoticeSettings
from portal.webhooks.values import DeliveryStatus


def notice_settings_set(
    *, user: User, kinds: Iterable[str], wait_minutes: int, lead_minutes: int
) -> NoticeSettings:
    """Choose what is mailed. Kinds that are not this person's are left out.

    Raises Refused(invalid_field) for minutes out of range.
    """
    for name, minutes in (("wait_minutes", wait_minutes), ("lead_minutes", lead_minutes)):
        if not 1 <= minutes <= MAX_MINUTES:
            sentence = Message("Enter a number of minutes from 1 to %(n)s", n=MAX_MINUTES)
            raise Refused(ErrorCode.INVALID_FIELD, sentence, name)
    chosen = sorted(set(kinds) & {str(kind) for kind in kinds_for(user)})
    row, _ = NoticeSettings.objects.update_or_create(
        user=user,
        defaults={"kinds": chosen, "wait_minutes": wait_minutes, "lead_minutes": lead_minutes},
    )
    return row


def mails_stop(*, user: User) -> None:
    """No more mails of any kind; only a job whose request asks for them is mailed about."""
    NoticeSettings.objects.update_or_create(user=user, defaults={"kinds": []})


def notice_test_send(*, user: User) -> NoticeMail:
    """Mail a test within seconds. One that still waits is enough: repeated presses flood nobody.

    Raises Refused(invalid_field) without an address.
    """
    if not user.email:
        sentence = "Your account has no mail address. Ask an admin"
        raise Refused(ErrorCode.INVALID_FIELD, sentence, "email", 409)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        waiting = NoticeMail.objects.filter(
            recipient=user, is_test=True, status=DeliveryStatus.WAITING
        ).first()
        if waiting is not None:
            return waiting
        now = timezone.now()
        return NoticeMail.objects.create(recipient=user, is_test=True, created_at=now, next_at=now)


def kinds_for(user: User) -> list[NoticeKind]:
    """The kinds that this person may choose."""
    return [kind for kind in NoticeKind if user.is_platform_admin or kind not in ADMIN_KINDS]
