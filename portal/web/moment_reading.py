"""A moment as people type it, in their own time zone.

    2026-11-22 18:00     2026-11-22     22 Nov 18:00     2026-11-22T18:00+08:00
    18:00                the next time that the clock shows it
    tomorrow 9:00        today, tomorrow and 今天, 明天

The zone is the active one (`portal.web.time_zone`); only an offset that is typed overrides it.
"""

import re
from datetime import date, datetime, time, timedelta

from django.utils import timezone
from django.utils.dateparse import parse_datetime

CLOCK = re.compile(r"(\d{1,2})[:：](\d\d)(?:[:：](\d\d))?", re.ASCII)
NAMED_DAYS = {"today": 0, "tomorrow": 1, "今天": 0, "明天": 1}
DATE_FORMS = ("%Y-%m-%d", "%Y/%m/%d", "%d %b %Y", "%d %B %Y", "%Y年%m月%d日")
DATE_FORMS_OF_THIS_YEAR = ("%d %b", "%d %B", "%m月%d日", "%m-%d")


def read_moment(text: str, now: datetime | None = None) -> datetime | None:
    """None for text that is no moment."""
    words = " ".join(text.split())
    with_zone = _iso(words)
    if with_zone is not None:
        return with_zone
    local = timezone.localtime(now)
    day_words, clock = _split_clock(words)
    if clock is None and CLOCK.search(words):
        return None
    if not day_words:
        return _next(clock, local) if clock is not None else None
    day = _day(day_words, local.date())
    if day is None:
        return None
    return _aware(day, clock or time())


def _iso(words: str) -> datetime | None:
    """ISO 8601 with a time, its offset that of the reader where it has none."""
    try:
        moment = parse_datetime(words)
    except ValueError:
        return None
    if moment is None or timezone.is_aware(moment):
        return moment
    return _aware(moment.date(), moment.time())


def _split_clock(words: str) -> tuple[str, time | None]:
    """The day's words and the time at their end."""
    head, _space, tail = words.rpartition(" ")
    if tail and (match := CLOCK.fullmatch(tail)):
        try:
            return head, time(int(match[1]), int(match[2]), int(match[3] or 0))
        except ValueError:
            return words, None
    return words, None


def _day(words: str, today: date) -> date | None:
    if (days := NAMED_DAYS.get(words.lower())) is not None:
        return today + timedelta(days=days)
    for form in DATE_FORMS:
        if (found := _strptime(words, form)) is not None:
            return found
    for form in DATE_FORMS_OF_THIS_YEAR:
        # With a year, so that 29 February is one where it exists.
        if (found := _strptime(f"{words} {today.year}", f"{form} %Y")) is not None:
            return found
    return None


def _strptime(words: str, form: str) -> date | None:
    try:
        return datetime.strptime(words, form).date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        return None


def _next(clock: time, local: datetime) -> datetime:
    at = _aware(local.date(), clock)
    return at if at > local else _aware(local.date() + timedelta(days=1), clock)


def _aware(day: date, clock: time) -> datetime:
    return timezone.make_aware(datetime.combine(day, clock))
