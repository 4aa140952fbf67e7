"""Parse the time that a request names: calendar days on pages, moments over REST."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from agents.contract.message import Message
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.usage.ledger import UsageWindow

MAX_WINDOW = timedelta(days=366)
# More bars could not be told apart; longer windows are drawn by week.
MAX_DAILY_BARS = 62
PERIODS = ("7-days", "30-days", "month", "last-month")
DEFAULT_PERIOD = "month"


@dataclass(slots=True)
class RequestedDays:
    """The days in a page's URL, first and last included."""

    # As in the URL or, for a period, as ISO dates.
    first: str
    last: str
    # One of PERIODS; empty if the URL names days.
    period: str = ""
    # None if there are errors.
    days: tuple[date, date] | None = None
    # Error codes by field.
    errors: dict[str, str] = field(default_factory=dict)


def parse_days(query: Mapping[str, str], today: date) -> RequestedDays:
    """The days that the URL names; this month by default."""
    first, last = query.get("from", "").strip()[:40], query.get("until", "").strip()[:40]
    if first or last:
        return _explicit_days(first, last, today)
    period = query.get("period", DEFAULT_PERIOD)
    period = period if period in PERIODS else DEFAULT_PERIOD
    days = _period_days(period, today)
    return RequestedDays(days[0].isoformat(), days[1].isoformat(), period, days)


def _explicit_days(first: str, last: str, today: date) -> RequestedDays:
    found = RequestedDays(first, last or today.isoformat())
    start, end = _day(first), _day(found.last)
    if start is None:
        found.errors["from"] = "not_a_day"
    if end is None:
        found.errors["until"] = "not_a_day"
    if start is None or end is None:
        return found
    if end < start:
        found.errors["until"] = "before_first"
    elif end - start >= MAX_WINDOW:
        found.errors["from"] = "too_long"
    elif start > today:
        found.errors["from"] = "in_future"
    else:
        found.days = (start, end)
    return found


def _day(text: str) -> date | None:
    try:
        day = parse_date(text)
    except ValueError:
        return None
    # Days next to the ends of the calendar have no neighbours to calculate with.
    return day if day and 1970 <= day.year < 9000 else None


def _period_days(period: str, today: date) -> tuple[date, date]:
    if period == "7-days":
        return today - timedelta(days=6), today
    if period == "30-days":
        return today - timedelta(days=29), today
    first = today.replace(day=1)
    if period == "last-month":
        last = first - timedelta(days=1)
        return last.replace(day=1), last
    return first, (first + timedelta(days=32)).replace(day=1) - timedelta(days=1)


def month_days(first: date) -> tuple[date, date]:
    """The first and last day of a month."""
    return _period_days("month", first)


def midnight(day: date) -> datetime:
    """The beginning of a day in the current time zone."""
    return timezone.make_aware(datetime.combine(day, time()))


def usage_window(days: tuple[date, date], now: datetime) -> UsageWindow:
    return UsageWindow(midnight(days[0]), midnight(days[1] + timedelta(days=1)), now)


def bar_edges(days: tuple[date, date], today: date) -> list[date]:
    """The first day of each bar, and the day after the last bar. A bar is a day, or a week if there
    would be more than MAX_DAILY_BARS. The bars end today: the future has no usage."""
    last = min(days[1], max(today, days[0])) + timedelta(days=1)
    days_per_bar = 1 if (last - days[0]).days <= MAX_DAILY_BARS else 7
    edges = [days[0] + timedelta(days=n) for n in range(0, (last - days[0]).days, days_per_bar)]
    return [*edges, last]


def parse_window(query: Mapping[str, str], now: datetime) -> UsageWindow:
    """The window of REST's `from` and `to` (exclusive): days or RFC 3339 times; by default, this
    month so far. Raises Refused(invalid_field)."""
    begin = midnight(timezone.localtime(now).date().replace(day=1))
    start = _moment(query, "from", begin)
    end = _moment(query, "to", max(now, start))
    if end < start:
        raise Refused(ErrorCode.INVALID_FIELD, "`to` is before `from`", "to")
    if end - start > MAX_WINDOW:
        sentence = Message(
            "A period has at most %(days)s days. Request longer periods in parts",
            days=MAX_WINDOW.days,
        )
        raise Refused(ErrorCode.INVALID_FIELD, sentence, "from")
    return UsageWindow(start, end, now)


def _moment(query: Mapping[str, str], name: str, default: datetime) -> datetime:
    text = query.get(name, "")
    if not text:
        return default
    if day := _day(text):
        return midnight(day)
    try:
        at = parse_datetime(text)
    except ValueError:
        at = None
    if at is None or not 1970 <= at.year < 9000:
        sentence = "Enter a day such as 2026-11-01 or a time such as 2026-11-01T00:00:00Z"
        raise Refused(ErrorCode.INVALID_FIELD, sentence, name)
    return at if timezone.is_aware(at) else timezone.make_aware(at)
