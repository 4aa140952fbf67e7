"""A moment as people type it in a form, in their own time zone.

    2026-11-22 18:00     2026-11-22     22 Nov 18:00     2026-11-22T18:00+08:00
    18:00                the next time that the clock shows it
    tomorrow 9:00        and all that `scheduler.core.request.moments` understands

The zone is the active one (`portal.web.time_zone`); only an offset that is typed overrides it.
"""

import re
from datetime import datetime, time, timedelta

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from scheduler.core.request import moments

CLOCK = re.compile(r"(\d{1,2}):(\d\d)", re.ASCII)
# As pages show them; without a year, that of today.
WITH_A_MONTH = ("%d %b", "%d %B", "%m月%d日")


def read_moment(text: str, now: datetime | None = None) -> datetime | None:
    """None for text that is no moment. A day alone means its midnight."""
    words, local = " ".join(text.split()), timezone.localtime(now)
    if (moment := _iso(words)) is not None:
        return moment
    for typed in (words, f"{words} 0:00"):
        if (moment := moments.read_moment(typed, local) or _with_a_month(typed, local)) is not None:
            return moment
    return _next(words, local)


def _iso(words: str) -> datetime | None:
    """ISO 8601 with a time, its offset that of the reader where it has none."""
    try:
        moment = parse_datetime(words)
    except ValueError:
        return None
    return timezone.make_aware(moment) if moment and timezone.is_naive(moment) else moment


def _with_a_month(words: str, local: datetime) -> datetime | None:
    day, _space, clock = words.rpartition(" ")
    for form in WITH_A_MONTH:
        for dated in (day, f"{day} {local.year}"):
            try:
                found = datetime.strptime(f"{dated} {clock}", f"{form} %Y %H:%M")  # noqa: DTZ007
            except ValueError:
                continue
            return timezone.make_aware(found)
    return None


def _next(words: str, local: datetime) -> datetime | None:
    match = CLOCK.fullmatch(words)
    if match is None:
        return None
    try:
        clock = time(int(match[1]), int(match[2]))
    except ValueError:
        return None
    at = timezone.make_aware(datetime.combine(local.date(), clock))
    tomorrow = datetime.combine(local.date() + timedelta(days=1), clock)
    return at if at > local else timezone.make_aware(tomorrow)
