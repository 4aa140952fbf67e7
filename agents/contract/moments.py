"""A moment inside a sentence: written in UTC, for every face to show on its reader's own clock.

    Message("not before %(time)s", time=write_moment(at))   ->  "not before 2026-11-25 18:00 UTC"

REST and logs keep the sentence as it is. Pages and the command line find the moments in it again
(`replace_moments`) and write them in the reader's time zone.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime

WRITTEN = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d)(:\d\d)? UTC\b", re.ASCII)


def write_moment(at: datetime | float, *, seconds: bool = False) -> str:
    """`at`: a time with its zone, or seconds since the epoch."""
    moment = at.astimezone(UTC) if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC" if seconds else "%Y-%m-%d %H:%M UTC")


def write_latest(at: datetime | float) -> str:
    """A moment by which something has happened: rounded up to the minute, never too early."""
    seconds = at.timestamp() if isinstance(at, datetime) else at
    return write_moment(-(-seconds // 60) * 60)


def replace_moments(text: str, show: Callable[[datetime, bool], str]) -> str:
    """The text with each moment shown by `show`, which is also told whether it has seconds. What is
    no day, or none of the reader's calendar, stays as it is: anybody may write one."""

    def shown(match: re.Match[str]) -> str:
        try:
            at = datetime.fromisoformat(match[1] + (match[2] or ""))
            return show(at.replace(tzinfo=UTC), match[2] is not None)
        except (ValueError, OverflowError):
            return match[0]

    return WRITTEN.sub(shown, text)
