"""How pages show a moment: one clock, the reader's own. No other code writes a time on a page.

    14:31               today, in the reader's time zone
    tomorrow 09:00      and "yesterday 18:40"
    22 Nov 14:31        another day of this year
    3 Feb 2025 14:31

The middleware of `portal.web.time_zone` has activated the reader's zone. The full date, time and
zone are in the element's title, and the machine's form in its `datetime`.
"""

from datetime import date, datetime, timedelta
from functools import lru_cache

from django.utils import dateformat, timezone
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from agents.contract.moments import replace_moments


def moment_text(at: datetime, *, seconds: bool = False) -> str:
    """The time, with the day where it is not today."""
    local = timezone.localtime(at)
    words = {"time": clock_text(local, seconds=seconds)}
    match _days_from_today(local):
        case 0:
            return words["time"]
        case 1:
            return _("tomorrow %(time)s") % words
        case -1:
            return _("yesterday %(time)s") % words
    return _("%(day)s %(time)s") % {**words, "day": date_text(local.date())}


def at_moment_text(at: datetime) -> str:
    """The same as the end of a sentence: "at 14:31", "tomorrow at 09:00"."""
    local = timezone.localtime(at)
    words = {"time": clock_text(local)}
    match _days_from_today(local):
        case 0:
            return _("at %(time)s") % words
        case 1:
            return _("tomorrow at %(time)s") % words
        case -1:
            return _("yesterday at %(time)s") % words
    return _("on %(day)s at %(time)s") % {**words, "day": date_text(local.date())}


def day_text(at: datetime) -> str:
    """The day alone: "today", "tomorrow", "22 Nov"."""
    local = timezone.localtime(at)
    match _days_from_today(local):
        case 0:
            return _("today")
        case 1:
            return _("tomorrow")
        case -1:
            return _("yesterday")
    return date_text(local.date())


def other_day(at: datetime) -> str:
    """The date, or nothing for today."""
    day = timezone.localtime(at).date()
    return "" if day == timezone.localdate() else day.isoformat()


def log_clock_text(at: datetime) -> str:
    return clock_text(timezone.localtime(at), seconds=True)


def full_text(at: datetime) -> str:
    """Date, time and zone: "2026-11-22 14:31:40 Asia/Shanghai (UTC+8)"."""
    local = timezone.localtime(at)
    return f"{local:%Y-%m-%d %H:%M:%S} {zone_text(local)}"


def zone_text(local: datetime | None = None) -> str:
    """The reader's zone: "Asia/Shanghai (UTC+8)". Its offset is that of a moment, or now."""
    name = timezone.get_current_timezone_name()
    offset = offset_text(local or timezone.localtime())
    return name if name == offset else f"{name} ({offset})"


def clock_text(local: datetime, *, seconds: bool = False) -> str:
    return f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"


def date_text(day: date) -> str:
    """ "22 Nov", with the year where it is not this one."""
    is_this_year = day.year == timezone.localdate().year
    return _day_as(day, _("j M") if is_this_year else _("j M Y"), get_language())


@lru_cache(maxsize=1_000)
def _day_as(day: date, pattern: str, language: str | None) -> str:
    """Kept, as the rows of a list are of few days. `language`: that of the name of the month."""
    return dateformat.format(day, pattern)


def offset_text(local: datetime) -> str:
    """ "UTC+8", "UTC-3:30", "UTC"."""
    minutes = int((local.utcoffset() or timedelta()).total_seconds()) // 60
    hours, rest = divmod(abs(minutes), 60)
    sign = "-" if minutes < 0 else "+"
    return "UTC" + (f"{sign}{hours}" if minutes else "") + (f":{rest:02}" if rest else "")


def time_element(at: datetime, words: str, note: str = "") -> SafeString:
    """A `<time>` element with these words for the moment; `note` is added to its title."""
    local = timezone.localtime(at)
    machine, title = local.isoformat(timespec="seconds"), full_text(local)
    title = f"{title}, {note}" if note else title
    return format_html('<time datetime="{}" title="{}">{}</time>', machine, title, words)


def moment_element(at: datetime, *, seconds: bool = False) -> SafeString:
    return time_element(at, moment_text(at, seconds=seconds))


def moment_element_after(at: datetime, first: datetime) -> SafeString:
    """The end of a range: without its day where `first` has named it."""
    local = timezone.localtime(at)
    if local.date() == timezone.localtime(first).date():
        return time_element(at, clock_text(local))
    return moment_element(at)


def text_with_elements(text: str) -> SafeString:
    """A sentence with the moments in it (`agents.contract.moments`) as `<time>` elements."""
    return SafeString(replace_moments(conditional_escape(text), _element))


def text_with_clock(text: str) -> str:
    """The same without markup, for an attribute or an option."""
    return replace_moments(str(text), _words)


def _element(at: datetime, seconds: bool) -> str:
    return moment_element(at, seconds=seconds)


def _words(at: datetime, seconds: bool) -> str:
    return moment_text(at, seconds=seconds)


def _days_from_today(local: datetime) -> int:
    return (local.date() - timezone.localdate()).days
