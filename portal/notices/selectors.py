"""What a person has chosen, the last mail to them, what they may be told, and the webhooks that a
request may name."""

from collections.abc import Iterable

from django.db.models import Q, QuerySet

from agents.contract.message import Message
from portal.accounts.models import Membership, Project, User
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.notices.audience import WEBHOOK_PREFIX
from portal.notices.kinds import ADMIN_KINDS
from portal.notices.models import Notice, NoticeMail, NoticeSettings, default_settings
from portal.webhooks.models import Endpoint


def notice_settings(user: User) -> NoticeSettings:
    """The chosen settings, or the defaults in a row that is not stored."""
    return NoticeSettings.objects.filter(user=user).first() or default_settings(user)


def latest_mail(user: User) -> NoticeMail | None:
    return NoticeMail.objects.filter(recipient=user).order_by("-id").first()


def readable_notices(notices: QuerySet[Notice], reader: User) -> QuerySet[Notice]:
    """Those that the reader may still be told: about jobs of their projects, and about nodes as a
    platform admin. A mail may wait for hours."""
    rows = notices.filter(
        Q(job=None) | Q(job__project__in=Membership.objects.filter(user=reader).values("project"))
    )
    return rows if reader.is_platform_admin else rows.exclude(kind__in=ADMIN_KINDS)


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
