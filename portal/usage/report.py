"""The monthly report of a project as an email, in text and plain HTML, in the reader's language."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.allocations.models import Allocation
from portal.usage.ledger import UsageWindow, unit_seconds_by_owner
from portal.usage.rounding import format_gpu_hours, percent
from portal.usage.selectors import UsageReport, usage_report
from portal.usage.window import month_days, usage_window


@dataclass(frozen=True, slots=True)
class MonthlyUsage:
    """What a project used in a month, and in the month before."""

    project: Project
    # The first day of the month.
    first: date
    usage: UsageReport
    previous_unit_seconds: int


def previous_month(today: date) -> date:
    """The first day of the month before."""
    return (today.replace(day=1) - timedelta(days=1)).replace(day=1)


def month_window(first: date, now: datetime) -> UsageWindow:
    return usage_window(month_days(first), now)


def monthly_usage(project: Project, first: date, now: datetime) -> MonthlyUsage:
    rows = Allocation.objects.filter(project=project)
    before = unit_seconds_by_owner(rows, month_window(previous_month(first), now))
    return MonthlyUsage(
        project, first, usage_report(rows, month_window(first, now)), sum(before.values())
    )


def report_email(month: MonthlyUsage, recipient: User, sender: str) -> EmailMultiAlternatives:
    """The email, ready to be sent."""
    with translation.override(recipient.language or translation.get_language() or "en"):
        context = _context(month, recipient)
        subject = _("%(project)s used %(hours)s GPU-hours in %(month)s") % context
        text = render_to_string("usage/month.txt", context)
        html = render_to_string("usage/month.html", context)
    message = EmailMultiAlternatives(subject, text, sender, [recipient.email])
    message.attach_alternative(html, "text/html")
    return message


def _context(month: MonthlyUsage, recipient: User) -> dict[str, object]:
    usage = month.usage
    by_user = [
        (name, format_gpu_hours(used), percent(used, usage.unit_seconds))
        for (name,), used in usage.grouped(lambda e: (e.user,))
    ]
    by_device = [
        (f"{model}, {kind}", format_gpu_hours(used), percent(used, usage.unit_seconds))
        for (model, kind), used in usage.grouped(lambda e: (e.model, _kind(e.kind)))
    ]
    return {
        "reader": recipient.get_full_name() or recipient.username,
        "project": month.project.slug,
        "month": f"{month.first:%Y-%m}",
        "hours": format_gpu_hours(usage.unit_seconds),
        "before": format_gpu_hours(month.previous_unit_seconds),
        "unit_seconds": usage.unit_seconds,
        "zone": str(timezone.get_current_timezone()),
        "parts": [(_("By user"), by_user), (_("By model and kind"), by_device)],
    }


def _kind(kind: str) -> str:
    names = {"gpu": _("whole GPUs"), "mig": _("MIG slices"), "mps": _("MPS shares")}
    return names.get(kind, kind)
