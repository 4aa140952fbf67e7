"""What people type into a field, read as they mean it, and what they probably meant.

    "90"             ─▶ "1h30m", told as "90 minutes"
    "tomorrow 9:00"  ─▶ the time until then
    "2 hourz"        ─▶ refused; "2h" is offered

A program says its units: REST reads only what `quantities` reads, and offers the rest.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agents.contract.message import Message
from agents.contract.moments import write_moment
from scheduler.core.request.moments import read_day_and_clock, read_moment, tidy
from scheduler.core.request.quantities import (
    NBSP,
    cpu_words,
    memory_words,
    read_cpu_milli,
    read_memory_mib,
    read_seconds,
    write_cpu,
    write_memory,
    write_seconds,
)
from scheduler.core.request_fields import FieldKind, RequestField

# A bare number is an amount of GB below this, of MB from there on.
MB_FROM = 2_048
_NUMBER = re.compile(r"[0-9]{1,9}")
_HALF_AN_HOUR = re.compile(r"(?:a )?half(?: an?)? hour|半个?小时", re.IGNORECASE)
_AND_A_HALF = re.compile(r"([0-9]{1,6})个半小时")
_AN_HOUR = re.compile(r"an? (hour|day|minute)", re.IGNORECASE)
_NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
_CHINESE_NUMBERS = {"一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8}
_CHINESE_NUMBER = re.compile(r"([一两二三四五六七八])(?=个?半?(?:小时|钟头|天|日|分))")
_PIECES = re.compile(r"([0-9]{1,9})(?:[.,]([0-9]{1,3}))?\s*([^\s0-9.,:]?)")
_CLOCK_PIECES = re.compile(r"([0-9]{1,5}):([0-9]{1,2})(?::[0-9]{0,2})?")


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A typed text as a request writes it."""

    written: str
    reading: Message | None = None
    """How it was read, where the text leaves that open."""


def read_typed(kind: FieldKind, text: str, now: datetime) -> TypedValue:
    """`now` is in the reader's time zone. A text that says nothing of this kind is left as it is,
    for the check of the request to refuse."""
    tidied = tidy(text)
    reader = READERS.get(kind)
    try:
        return (reader(tidied, now) if reader else None) or TypedValue(tidied)
    except ValueError:
        return TypedValue(tidied)


def without_blanks(value: Any) -> Any:
    """Without the blanks around a pasted text."""
    return value.strip(f" \t{NBSP}") if isinstance(value, str) else value


def mended_fields(field: RequestField, meant: object) -> Mapping[str, Any] | None:
    """The field with the value that was probably meant; None without one."""
    if meant in ("", None):
        return None
    changes: dict[str, Any] = {}
    field.write_to(changes, meant)
    return changes


def probably_meant(kind: FieldKind, text: object) -> str:
    """The nearest text that is an amount of this kind; empty if there is none."""
    mend = MENDS.get(kind)
    if mend is None or not isinstance(text, str | int | float) or isinstance(text, bool):
        return ""
    try:
        return mend(tidy(str(text)))
    except ValueError:
        return ""


def meant_count(text: object) -> int | None:
    """The whole number in a text such as "--5", "3 x" or "two"; None without one."""
    if not isinstance(text, str):
        return None
    tidied = tidy(text).lower()
    if tidied in _NUMBER_WORDS:
        return _NUMBER_WORDS.index(tidied) + 1
    match = _NUMBER.search(tidied)
    return int(match[0]) if match else None


def _duration(text: str, now: datetime) -> TypedValue | None:
    if _NUMBER.fullmatch(text):
        number = int(text)
        seconds = number * 60
        message = (
            Message("1 minute") if number == 1 else Message("%(number)s minutes", number=number)
        )
    elif (ends := read_day_and_clock(text, now)) is not None:
        left = int((ends.astimezone(UTC) - now.astimezone(UTC)).total_seconds())
        if left <= 0:
            return None
        seconds = -(-left // 60) * 60
        message = Message(
            "until %(when)s, %(duration)s from now",
            when=write_moment(ends),
            duration=write_seconds(seconds),
        )
    else:
        seconds = read_seconds(_spelled_out(text))
        return TypedValue(write_seconds(seconds))
    return TypedValue(write_seconds(seconds) or text, message)


def _spelled_out(text: str) -> str:
    """ "half an hour" and "两小时" in digits and units."""
    text = _CHINESE_NUMBER.sub(lambda match: str(_CHINESE_NUMBERS[match[1]]), text)
    text = _AND_A_HALF.sub(r"\1h30m", text)
    text = _HALF_AN_HOUR.sub("30m", text)
    return _AN_HOUR.sub(r"1 \1", text)


def _size(text: str, now: datetime) -> TypedValue:
    if not _NUMBER.fullmatch(text):
        return TypedValue(write_memory(read_memory_mib(text)))
    amount = int(text)
    mib = amount if amount >= MB_FROM else amount * 1_024
    return TypedValue(write_memory(mib), Message("%(amount)s", amount=memory_words(mib)))


def _cpu(text: str, now: datetime) -> TypedValue:
    return TypedValue(str(write_cpu(read_cpu_milli(text))))


def _begin(text: str, now: datetime) -> TypedValue | None:
    """A time without a zone is one of the reader's zone, and its day may be left open."""
    if text.startswith("+") or (moment := read_moment(text, now)) is None:
        return None
    is_open = moment.tzinfo is now.tzinfo
    reading = Message("%(when)s", when=write_moment(moment)) if is_open else None
    return TypedValue(moment.isoformat(timespec="seconds"), reading)


def _meant_duration(text: str) -> str:
    text = text.lstrip("-+~<>= ")
    if not text[:1].isdigit():
        return ""
    if clock := _CLOCK_PIECES.match(text):
        return write_seconds(read_seconds(f"{int(clock[1])}h{int(clock[2])}m"))
    spelled = _spelled_out(text)
    unit_seconds = {"d": 86_400, "h": 3_600, "m": 60, "s": 1, "w": 604_800}
    total = 0
    for whole, decimals, letter in _PIECES.findall(spelled):
        size = unit_seconds.get(letter.lower(), 60)
        total += int(whole) * size + int((decimals or "0").ljust(3, "0")) * size // 1_000
    return write_seconds(read_seconds(total))


def _meant_size(text: str) -> str:
    match = _PIECES.search(text)
    if match is None or not int(match[1]):
        return ""
    unit = match[3].lower() if match[3].lower() in ("m", "g", "t") else "g"
    if not match[3] and int(match[1]) >= MB_FROM:
        unit = "m"
    decimals = f".{match[2]}" if match[2] else ""
    return memory_words(read_memory_mib(f"{match[1]}{decimals}{unit}"))


def _meant_cpu(text: str) -> str:
    match = _PIECES.search(text)
    return cpu_words(read_cpu_milli(f"{match[1]}.{match[2] or 0}")) if match else ""


READERS: Mapping[FieldKind, Callable[[str, datetime], TypedValue | None]] = {
    FieldKind.DURATION: _duration,
    FieldKind.SIZE: _size,
    FieldKind.CPU: _cpu,
    FieldKind.BEGIN: _begin,
}
MENDS: Mapping[FieldKind, Callable[[str], str]] = {
    FieldKind.DURATION: _meant_duration,
    FieldKind.SIZE: _meant_size,
    FieldKind.CPU: _meant_cpu,
}
