"""What a person has chosen, the last mail to them, and the webhooks that a request may name."""

from collections.abc import Iterable

from django.db.models import Q

from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.notices.audience import WEBHOOK_PREFIX
from portal.notices.models import NoticeMail, NoticeSettings, default_settings
from portal.webhooks.models import Endpoint


def notice_settings(user: User) -> NoticeSettings:
    """The chosen settings, or the defaults in a row that is not stored."""
    return NoticeSettings.objects.filter(user=user).first() or default_settings(user)


def latest_mail(user: User) -> NoticeMail | None:
    return NoticeMail.objects.filter(recipient=user).order_by("-id").first()


def require_webhook_names(user: User, project: Project, notify: Iterable[str]) -> None:
    """Raises Refused(invalid_field) if `notify` names a webhook that is neither the user's nor the
    project's. One query if it names any."""
    wanted = [w.removeprefix(WEBHOOK_PREFIX) for w in notify if w.startswith(WEBHOOK_PREFIX)]
    if not wanted:
        return
    rows = Endpoint.objects.filter(Q(owner=user, project=None) | Q(project=project), off_reason="")
    known = set(rows.filter(name__in=wanted).values_list("name", flat=True))
    for name in wanted:
        if name not in known:
            sentence = Message(
                "There is no webhook named %(name)s for these jobs. Add it under Account, Webhooks",
                name=name,
            )
            raise Refused(ErrorCode.INVALID_FIELD, sentence, "notify")
