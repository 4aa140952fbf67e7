"""Send monthly reports to the admins of projects that used something, each at most once."""

import logging
from datetime import date, datetime, timedelta
from smtplib import SMTPAuthenticationError, SMTPConnectError, SMTPRecipientsRefused
from socket import gaierror

from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.accounts.models import Membership, Project, Role, User
from portal.allocations.models import Allocation
from portal.usage.ledger import unit_seconds_by_owner
from portal.usage.models import MonthlyReport
from portal.usage.report import month_window, monthly_usage, report_email

log = logging.getLogger(__name__)

# Time for releases just before the end of the month to be recorded.
SETTLED_AFTER = timedelta(minutes=10)
# A task may take 30 s; the rest goes with the next task.
REPORT_BATCH = 20
# After these errors the email was certainly not sent and may be sent again.
NOT_SENT_ERRORS = (
    ConnectionRefusedError,
    SMTPAuthenticationError,
    SMTPConnectError,
    SMTPRecipientsRefused,
    gaierror,
)


def reports_send(
    *, month: date, sender: str, now: datetime, project: Project | None = None
) -> list[MonthlyReport]:
    """Send the reports of a month that were not sent yet, at most REPORT_BATCH.

    The row is written before the email is sent: a worker that dies in between sends it never rather
    than twice.
    """
    if now < month_window(month, now).end + SETTLED_AFTER:
        return []
    due = reports_due(month=month, now=now, project=project)[:REPORT_BATCH]
    sent = (_send(row, user, month, sender, now) for row, user in due)
    return [report for report in sent if report is not None]


def reports_due(
    *, month: date, now: datetime, project: Project | None = None
) -> list[tuple[Project, User]]:
    """The admins with an address who have no report yet, of projects that used something in the
    month. Four queries."""
    used = unit_seconds_by_owner(Allocation.objects.all(), month_window(month, now))
    active = {project_id for (project_id, _), amount in used.items() if amount}
    done = set(MonthlyReport.objects.filter(month=month).values_list("project_id", "user_id"))
    rows = Membership.objects.filter(
        role=Role.ADMIN, user__is_active=True, project__archived=False, project_id__in=active
    ).exclude(user__email="")
    if project is not None:
        rows = rows.filter(project=project)
    rows = rows.select_related("project", "user").order_by("project__slug", "user__username")
    return [(r.project, r.user) for r in rows if (r.project_id, r.user_id) not in done]


def _send(
    project: Project, user: User, month: date, sender: str, now: datetime
) -> MonthlyReport | None:
    message = report_email(monthly_usage(project, month, now), user, sender)
    try:
        with transaction.atomic():
            row = MonthlyReport.objects.create(project=project, user=user, month=month)
    except IntegrityError:
        return None  # another worker has it
    try:
        message.send()
    except NOT_SENT_ERRORS as error:
        row.delete()
        log.warning("the report of %s was not sent: %s", project.slug, type(error).__name__)
        return None
    except Exception as error:
        log.warning(
            "the report of %s may not have been sent: %s", project.slug, type(error).__name__
        )
        return None
    row.sent_at = timezone.now()
    row.save(update_fields=["sent_at"])
    return row
