"""Moments as people type them, in their own time zone: one reader for every form.

2026-11-22 18:00     22 Nov 18:00     11月22日 18:00     2026-11-22T18:00+08:00
tomorrow 9:00        friday 6pm       noon today         明天上午9点
2026-11-22           the day alone: its midnight
18:00, 6pm           the clock alone: the next time that it shows this
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta

_DAYS = {
    "today": 0,
    "tonight": 0,
    "tomorrow": 1,
    "今天": 0,
    "今晚": 0,
    "明天": 1,
    "明早": 1,
    "明晚": 1,
    "后天": 2,
}
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CHINESE_WEEKDAYS = "一二三四五六日"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = re.compile(
    r"(?P<word>today|tonight|tomorrow|今天|今晚|明天|明早|明晚|后天)"
    r"|(?P<weekday>mon|tue|wed|thu|fri|sat|sun)(?:[a-z]*day)?\b"
    r"|(?:周|星期|礼拜)(?P<chinese>[一二三四五六日天])"
    r"|(?P<date>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})T?"
    r"|(?P<number>[0-9]{1,2}) (?P<month>" + "|".join(_MONTHS) + r")[a-z]*(?: (?P<year>[0-9]{4}))?\b"
    r"|(?:(?P<nian>[0-9]{4})年)?(?P<yue>[0-9]{1,2})月(?P<ri>[0-9]{1,2})[日号]",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?P<part>早上|上午|中午|下午|晚上|傍晚)?\s*"
    r"(?:(?P<hour>[0-9]{1,2})(?:[:点时](?P<minute>[0-5]?[0-9])?分?(?::[0-5][0-9])?)?(?P<half>半)?"
    r"\s*(?P<noon>[ap]\.?m\.?)?|(?P<named>noon|midnight))",
    re.IGNORECASE,
)
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}.*")
_FILLERS = re.compile(r"\b(?:until|till|at|on|by)\b|到|截至|之前|前$", re.IGNORECASE)
# A part of the day after noon: "下午3点" is 15:00. "中午12点" stays.
_AFTERNOON = frozenset({"下午", "晚上", "傍晚", "今晚", "明晚", "tonight"})

_Reader = Callable[[str, datetime], datetime | None]


def tidy(text: str) -> str:
    """Without blanks around it, and with the digits and signs of a Chinese keyboard as ASCII."""
    return unicodedata.normalize("NFKC", text).strip()


def read_moment(text: str, now: datetime) -> datetime | None:
    """In the zone of `now`, unless the text has an offset of its own; None for any other text. A
    weekday is its next one, today's only if the time is still to come; a day and month without a
    year are the nearest."""
    return _first(text, now, (_iso, _day_and_clock, _day_alone, _clock_alone))


def read_day_and_clock(text: str, now: datetime) -> datetime | None:
    """The same for a text that may also be a length of time: "9:00" alone would be nine hours, and
    a day alone says too little."""
    return _first(text, now, (_iso, _day_and_clock))


def _first(text: str, now: datetime, readers: Iterable[_Reader]) -> datetime | None:
    words = " ".join(tidy(text).split())
    for read in readers:
        try:
            if (moment := read(words, now)) is not None:
                moment.astimezone(UTC)
                return moment
        except (ValueError, OverflowError):
            # No such day, or one that is out of all calendars in some zone.
            continue
    return None


def _iso(words: str, now: datetime) -> datetime | None:
    if not _ISO.fullmatch(words):
        return None
    moment = datetime.fromisoformat(words)
    return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)


def _day_and_clock(words: str, now: datetime) -> datetime | None:
    rest = " ".join(_FILLERS.sub(" ", words).split())
    day = _DAY.search(rest)
    if day is None:
        return None
    before, after = rest[: day.start()].strip(" ,"), rest[day.end() :].strip(" ,")
    if before and after:
        return None
    at = _time(before or after, (day["word"] or "").lower())
    return _on_day(day, at, now) if at else None


def _day_alone(words: str, now: datetime) -> datetime | None:
    day = _DAY.fullmatch(words)
    return _on_day(day, time(0), now) if day else None


def _clock_alone(words: str, now: datetime) -> datetime | None:
    at = None if words.isdigit() else _time(words, "")
    if at is None:
        return None
    today = datetime.combine(now.date(), at, tzinfo=now.tzinfo)
    return today if today > now else today + timedelta(days=1)


def _time(words: str, day_word: str) -> time | None:
    clock = _CLOCK.fullmatch(words)
    if clock is None:
        return None
    if named := clock["named"]:
        return time(12) if named.lower() == "noon" else time(0)
    hour, minute = int(clock["hour"]), int(clock["minute"] or 0)
    half_day = (clock["noon"] or "").lower()[:1]
    if half_day and not 1 <= hour <= 12:
        return None
    if half_day == "a" and hour == 12:
        hour = 0
    is_late = half_day == "p" or clock["part"] in _AFTERNOON or day_word in _AFTERNOON
    if is_late and 1 <= hour < 12:
        hour += 12
    if clock["half"]:
        minute = 30
    return time(hour, minute) if hour < 24 and minute < 60 else None


def _on_day(day: re.Match[str], at: time, now: datetime) -> datetime:
    """Raises ValueError for a day that does not exist."""

    def moment(on: date) -> datetime:
        return datetime.combine(on, at, tzinfo=now.tzinfo)

    if day["date"]:
        year, month, number = map(int, day["date"].split("-"))
        return moment(date(year, month, number))
    if day["number"]:
        month = _MONTHS.index(day["month"].lower()) + 1
        return moment(_nearest(now, day["year"], month, int(day["number"])))
    if day["ri"]:
        return moment(_nearest(now, day["nian"], int(day["yue"]), int(day["ri"])))
    if word := day["word"]:
        return moment(now.date() + timedelta(days=_DAYS[word.lower()]))
    if day["weekday"]:
        wanted = _WEEKDAYS.index(day["weekday"].lower())
    else:
        wanted = _CHINESE_WEEKDAYS.index(day["chinese"].replace("天", "日"))
    found = moment(now.date() + timedelta(days=(wanted - now.weekday()) % 7))
    return found if found > now else found + timedelta(days=7)


def _nearest(now: datetime, year: str | None, month: int, number: int) -> date:
    """The day of this year, or of the one before or after where that is nearer."""
    if year:
        return date(int(year), month, number)
    found = []
    for each in (now.year, now.year + 1, now.year - 1):
        try:
            found.append(date(each, month, number))
        except ValueError:
            # The 29th of February of another year.
            continue
    return min(found, key=lambda day: abs(day - now.date()))
