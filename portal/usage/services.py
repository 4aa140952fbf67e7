"""Sends monthly reports: to each admin of a project that used something, and never twice."""

import logging
from datetime import date, datetime, timedelta
from smtplib import SMTPAuthenticationError, SMTPConnectError, SMTPRecipientsRefused
from socket import gaierror

from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.accounts.models import Membership, Project, Role, User
from portal.jobs.models import Allocation
from portal.usage.ledger import unit_seconds_by_owner
from portal.usage.models import MonthlyReport
from portal.usage.report import month_window, monthly_usage, report_email

log = logging.getLogger(__name__)

# What was given back a moment before the month's end is written down by then.
SETTLED_AFTER = timedelta(minutes=10)
# A worker has 30 s for a task; what is left over goes with the next one.
REPORT_BATCH = 20
# The mail certainly did not leave: it may be tried again. After anything else it may have.
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
    """Mail the month's figures to those who have not had them. At most MOST_AT_ONCE.

    The row that says so stands before the mail leaves: whoever dies in between sends it once too
    little rather than twice.
    """
    if now < month_window(month, now).end + SETTLED_AFTER:
        return []
    due = reports_due(month=month, now=now, project=project)[:REPORT_BATCH]
    sent = (_send(row, user, month, sender, now) for row, user in due)
    return [report for report in sent if report is not None]


def reports_due(
    *, month: date, now: datetime, project: Project | None = None
) -> list[tuple[Project, User]]:
    """The admins with an address, of projects that used something in the month, who were not
    mailed yet. Four queries."""
    used = unit_seconds_by_owner(Allocation.objects.all(), month_window(month, now))
    busy = {project_id for (project_id, _), amount in used.items() if amount}
    done = set(MonthlyReport.objects.filter(month=month).values_list("project_id", "user_id"))
    rows = Membership.objects.filter(
        role=Role.ADMIN, user__is_active=True, project__archived=False, project_id__in=busy
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
