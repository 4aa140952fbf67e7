"""Moments as people type them: "tomorrow 9:00", "18:00 today", "明天9点", "2026-01-31 18:00"."""

import re
from datetime import datetime, time, timedelta

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
_DAY = re.compile(
    r"(?P<word>today|tonight|tomorrow|今天|今晚|明天|明早|明晚|后天)"
    r"|(?P<weekday>mon|tue|wed|thu|fri|sat|sun)(?:[a-z]*day)?\b"
    r"|(?:周|星期|礼拜)(?P<chinese>[一二三四五六日天])"
    r"|(?P<date>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})T?",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?P<part>早上|上午|中午|下午|晚上|傍晚)?\s*"
    r"(?:(?P<hour>[0-9]{1,2})(?:[:点时](?P<minute>[0-5]?[0-9])?分?(?::[0-5][0-9])?)?(?P<half>半)?"
    r"\s*(?P<noon>[ap]\.?m\.?)?|(?P<named>noon|midnight))",
    re.IGNORECASE,
)
_FILLERS = re.compile(r"\b(?:until|till|at|on|by)\b|到|截至|之前|前$", re.IGNORECASE)
# A part of the day after noon: "下午3点" is 15:00. "中午12点" stays.
_AFTERNOON = frozenset({"下午", "晚上", "傍晚", "今晚", "明晚", "tonight"})


def read_moment(text: str, now: datetime) -> datetime | None:
    """In the zone of `now`; None for a text that names no day, or more than a day and a clock. A
    weekday is its next one, today's only if the time is still to come."""
    rest = " ".join(_FILLERS.sub(" ", text).split())
    day = _DAY.search(rest)
    if day is None:
        return None
    before, after = rest[: day.start()].strip(" ,"), rest[day.end() :].strip(" ,")
    if before and after:
        return None
    clock = _CLOCK.fullmatch(before or after)
    if clock is None:
        return None
    at = _time(clock, (day["word"] or "").lower())
    return _on_day(day, at, now) if at else None


def _time(clock: re.Match[str], day_word: str) -> time | None:
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


def _on_day(day: re.Match[str], at: time, now: datetime) -> datetime | None:
    if day["date"]:
        try:
            year, month, number = map(int, day["date"].split("-"))
            return datetime(year, month, number, at.hour, at.minute, tzinfo=now.tzinfo)
        except ValueError:
            return None
    today = datetime.combine(now.date(), at, tzinfo=now.tzinfo)
    if word := day["word"]:
        return today + timedelta(days=_DAYS[word.lower()])
    if day["weekday"]:
        wanted = _WEEKDAYS.index(day["weekday"].lower())
    else:
        wanted = _CHINESE_WEEKDAYS.index(day["chinese"].replace("天", "日"))
    found = today + timedelta(days=(wanted - today.weekday()) % 7)
    return found if found > now else found + timedelta(days=7)
