"""Texts of the Usage page: periods, budgets with their forecast, and the use of held devices."""

from dataclasses import dataclass
from datetime import date, datetime

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents.contract.moments import write_moment
from agents.contract.telemetry import MissingReason
from portal.quotas.figures import QuotaFigures, limit_parts
from portal.quotas.models import Quota
from portal.usage.budgets import BudgetStatus
from portal.usage.current import ActivityGap, CurrentAllocation
from portal.usage.rounding import format_gpu_hours, short_gpu_hours
from portal.usage.selectors import ALL, ME, UsageScope
from portal.web.cluster.sensors import UNMEASURED_REASONS
from portal.web.wording.labels import NBSP, duration
from portal.web.wording.times import date_text

PERIODS = {
    "7-days": gettext_lazy("7 days"),
    "30-days": gettext_lazy("30 days"),
    "month": gettext_lazy("This month"),
    "last-month": gettext_lazy("Last month"),
}
ERRORS = {
    "not_a_day": gettext_lazy("Enter a date as year-month-day, such as 2026-11-01"),
    "before_first": gettext_lazy("The last day is before the first. Swap them"),
    "too_long": gettext_lazy("Choose at most 366 days; for more, add up several periods"),
    "in_future": gettext_lazy("The first day is in the future. Choose today or earlier"),
}
KINDS = {
    "gpu": gettext_lazy("whole GPUs"),
    "mig": gettext_lazy("MIG slices"),
    "mps": gettext_lazy("MPS shares"),
}
ABSENT: dict[str, str | Promise] = {
    ActivityGap.NO_SAMPLE: gettext_lazy("waiting for a sample"),
    ActivityGap.SHARE: gettext_lazy("not measurable for a share"),
}


@dataclass(frozen=True, slots=True)
class BudgetSummary:
    """A budget, formatted for people."""

    line: BudgetStatus
    owner: str
    used: str
    limit: str
    left: str
    used_permille: int
    outlook: str
    # What the outlook is based on.
    basis: str
    # CSS class: "warn" if the budget will not last.
    tone: str


@dataclass(frozen=True, slots=True)
class QuotaSummary:
    owner: str
    """The project or user that the quota limits, and its GPU model."""
    figures: QuotaFigures

    @property
    def bars(self) -> list[tuple[str, float, float]]:
        """CSS class, x and width of each part of a bar that is 100 wide."""
        parts = (("team", self.figures.held_units), ("kept", self.figures.promised_units))
        return [
            (f"bar-{cls}", round(100 * start, 1), round(100 * part, 1))
            for cls, start, part in limit_parts(self.figures.limit_units, parts)
        ]


@dataclass(frozen=True, slots=True)
class HeldDevice:
    holding: CurrentAllocation
    device: str
    held_for: str
    active: str | Promise
    is_number: bool
    last_hour: str


def headline(scope: UsageScope, used: int) -> str:
    """The page's title."""
    if not used:
        return _("Nothing was used in this period")
    amount = {"hours": format_gpu_hours(used)}
    if scope.name == ME:
        return _("You used %(hours)s GPU-hours") % amount
    if scope.name == ALL or scope.project is None:
        return _("All projects used %(hours)s GPU-hours") % amount
    return _("%(project)s used %(hours)s GPU-hours") % {**amount, "project": scope.project.slug}


def period_sentence(days: tuple[date, date], now: datetime) -> str:
    """The days shown, and up to when running jobs are counted."""
    if days[0] <= timezone.localtime(now).date() <= days[1]:
        text = _("%(first)s to %(last)s, up to %(clock)s today")
        return text % {
            "first": date_text(days[0]),
            "last": date_text(days[1]),
            "clock": write_moment(now),
        }
    return _("%(first)s to %(last)s") % {"first": date_text(days[0]), "last": date_text(days[1])}


def budget_summary(line: BudgetStatus) -> BudgetSummary:
    names = {"project": line.project, "user": line.user}
    outlook, tone = _outlook(line)
    return BudgetSummary(
        line=line,
        owner=_("%(user)s in %(project)s") % names if line.user else line.project,
        used=format_gpu_hours(line.used_unit_seconds),
        limit=short_gpu_hours(line.limit_unit_seconds),
        left=format_gpu_hours(max(0, line.limit_unit_seconds - line.used_unit_seconds)),
        used_permille=min(1000, line.used_unit_seconds * 1000 // line.limit_unit_seconds)
        if line.limit_unit_seconds
        else 1000,
        outlook=outlook,
        basis=_basis(line),
        tone=tone,
    )


def _outlook(line: BudgetStatus) -> tuple[str, str]:
    ends = write_moment(line.ends_at)
    if line.used_unit_seconds >= line.limit_unit_seconds:
        return _("Used up; the budget ends on %(ends)s") % {"ends": ends}, "warn"
    if line.used_by_end is None:
        return _("No forecast yet"), ""
    names = {"hours": format_gpu_hours(line.used_by_end), "ends": ends}
    if line.is_sufficient:
        return _("At this pace, %(hours)s by %(ends)s: within budget") % names, ""
    if line.forecast.exhausted_at is None:
        return _("At this pace, %(hours)s by %(ends)s: over budget") % names, "warn"
    day = date_text(timezone.localtime(line.forecast.exhausted_at).date())
    return _("At this pace it is used up on %(day)s, before %(ends)s") % {
        **names,
        "day": day,
    }, "warn"


def _basis(line: BudgetStatus) -> str:
    """What the forecast is based on."""
    if line.used_by_end is None:
        return _("Less than a day of usage to base a forecast on.")
    seconds = line.forecast.measured_over.total_seconds()
    days = int(seconds // 86_400)
    over = ngettext("%(n)s day", "%(n)s days", days) % {"n": days}
    return _("Based on usage so far, continued at the mean rate of the last %(over)s.") % {
        "over": over
    }


def held_device(holding: CurrentAllocation) -> HeldDevice:
    recent = holding.recent
    device = {"gpu": "GPU", "mig": holding.profile, "mps": "MPS"}[holding.kind]
    if holding.active_percent is not None:
        active: str | Promise = f"{holding.active_percent}{NBSP}%"
    elif isinstance(holding.gap, MissingReason):
        active = UNMEASURED_REASONS[holding.gap]
    else:
        active = ABSENT[holding.gap or ActivityGap.NO_SAMPLE]
    return HeldDevice(
        holding=holding,
        device=device,
        held_for=duration(holding.duration.total_seconds()),
        active=active,
        is_number=holding.active_percent is not None,
        last_hour=f"≤{NBSP}{recent.mean_percent}{NBSP}%" if recent.minutes else "",
    )


def quota_summary(quota: Quota, figures: QuotaFigures) -> QuotaSummary:
    names = {"user": quota.user.username if quota.user else "", "project": quota.project.slug}
    owner = _("%(user)s in %(project)s") % names if quota.user else quota.project.slug
    return QuotaSummary(f"{owner}, {quota.model}" if quota.model else owner, figures)
