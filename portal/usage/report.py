"""A project's month in a mail: text and plain HTML, in the reader's language."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from portal.accounts.models import Project, User
from portal.jobs.models import Allocation
from portal.usage.ledger import Window, used_by_owner
from portal.usage.rounding import hours, percent
from portal.usage.selectors import Usage, usage
from portal.usage.window import month_of, window_of


@dataclass(frozen=True, slots=True)
class Month:
    """What a project used in a month, and in the one before it. Unit-seconds."""

    project: Project
    first: date
    found: Usage
    before: int


def last_month(today: date) -> date:
    """The first day of the month before this one."""
    return (today.replace(day=1) - timedelta(days=1)).replace(day=1)


def month_window(first: date, now: datetime) -> Window:
    return window_of(month_of(first), now)


def month_of_project(project: Project, first: date, now: datetime) -> Month:
    rows = Allocation.objects.filter(project=project)
    before = used_by_owner(rows, month_window(last_month(first), now))
    return Month(project, first, usage(rows, month_window(first, now)), sum(before.values()))


def mail(month: Month, to: User, sender: str) -> EmailMultiAlternatives:
    """Not sent yet."""
    with translation.override(to.language or translation.get_language() or "en"):
        context = _context(month, to)
        subject = _("%(project)s used %(hours)s GPU-hours in %(month)s") % context
        text = render_to_string("usage/month.txt", context)
        html = render_to_string("usage/month.html", context)
    message = EmailMultiAlternatives(subject, text, sender, [to.email])
    message.attach_alternative(html, "text/html")
    return message


def _context(month: Month, to: User) -> dict[str, object]:
    found = month.found
    by_user = [
        (name, hours(used), percent(used, found.used))
        for (name,), used in found.by(lambda e: (e.user,))
    ]
    by_device = [
        (f"{model}, {kind}", hours(used), percent(used, found.used))
        for (model, kind), used in found.by(lambda e: (e.model, _kind(e.kind)))
    ]
    return {
        "reader": to.get_full_name() or to.username,
        "project": month.project.slug,
        "month": f"{month.first:%Y-%m}",
        "hours": hours(found.used),
        "before": hours(month.before),
        "unit_seconds": found.used,
        "zone": str(timezone.get_current_timezone()),
        "parts": [(_("By user"), by_user), (_("By model and kind"), by_device)],
    }


def _kind(kind: str) -> str:
    names = {"gpu": _("whole GPUs"), "mig": _("MIG slices"), "mps": _("MPS shares")}
    return names.get(kind, kind)
