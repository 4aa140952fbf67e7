"""A moment as people type it is understood in their own zone, by the one reader of all forms."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from scheduler.core.request.moments import read_day_and_clock, read_moment

SHANGHAI, BERLIN, NEW_YORK = map(ZoneInfo, ("Asia/Shanghai", "Europe/Berlin", "America/New_York"))
# A Wednesday.
NOW = datetime(2026, 11, 25, 20, 0, tzinfo=SHANGHAI)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-22 18:00", "2026-11-22T18:00:00+08:00"),
        ("2026-11-22T18:00", "2026-11-22T18:00:00+08:00"),
        ("2026-11-22T18:00:05", "2026-11-22T18:00:05+08:00"),
        ("2026-11-22", "2026-11-22T00:00:00+08:00"),
        ("  2026-11-22   18:00 ", "2026-11-22T18:00:00+08:00"),
        ("2026-11-22 18:00Z", "2026-11-22T18:00:00+00:00"),
        ("2026-11-22T18:00-05:00", "2026-11-22T18:00:00-05:00"),
        ("21:30", "2026-11-25T21:30:00+08:00"),
        ("9:00", "2026-11-26T09:00:00+08:00"),
        ("20:00", "2026-11-26T20:00:00+08:00"),
        ("today 9:00", "2026-11-25T09:00:00+08:00"),
        ("Tomorrow 9:00", "2026-11-26T09:00:00+08:00"),
        ("tomorrow", "2026-11-26T00:00:00+08:00"),
        ("明天 9:00", "2026-11-26T09:00:00+08:00"),
        ("22 Nov 18:00", "2026-11-22T18:00:00+08:00"),
        ("3 February 2027 7:05", "2027-02-03T07:05:00+08:00"),
        ("11月22日 9:00", "2026-11-22T09:00:00+08:00"),
        ("2027年2月3日9点", "2027-02-03T09:00:00+08:00"),
        ("18:00 on 22 Nov", "2026-11-22T18:00:00+08:00"),
        ("2 Jan 9:00", "2027-01-02T09:00:00+08:00"),
        ("2 Jan", "2027-01-02T00:00:00+08:00"),
        ("29 Feb 2028", "2028-02-29T00:00:00+08:00"),
        ("9pm", "2026-11-25T21:00:00+08:00"),
        ("下午3点", "2026-11-26T15:00:00+08:00"),
        ("friday", "2026-11-27T00:00:00+08:00"),
        ("２０２６-11-22 １８：００", "2026-11-22T18:00:00+08:00"),
        ("\u017fun 9:00", "2026-11-29T09:00:00+08:00"),
    ],
)
def test_what_is_understood(text, moment):
    assert read_moment(text, NOW).isoformat() == moment


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "x", "90", "25:00", "9:75", "2026-13-01", "29 Feb", "tomorrow 25:00"),
        *("99 Nov 10:00", "2026-11-22 18:00+99:00", "+2h", "never 9:00"),
    ],
)
def test_what_is_no_moment(text):
    assert read_moment(text, NOW) is None


def test_what_is_no_day_of_any_calendar_is_no_moment():
    """In UTC these are before the first year, or after the last one."""
    for text, zone in (("0001-01-01 5:00", SHANGHAI), ("9999-12-31 23:00", NEW_YORK)):
        now = NOW.astimezone(zone)
        assert (read_moment(text, now), read_day_and_clock(text, now)) == (None, None)


def test_a_length_of_time_is_not_taken_for_a_moment():
    for text in ("9:00", "tomorrow", "2026-11-28", "6pm"):
        assert read_day_and_clock(text, NOW) is None
    for text in ("tomorrow 9:00", "28 Nov 9:00", "2026-11-28T09:00:00+01:00"):
        assert read_day_and_clock(text, NOW) == read_moment(text, NOW)


def test_a_time_that_the_clock_skips_is_the_one_after_the_gap():
    skipped = read_moment("2026-03-29 02:30", NOW.astimezone(BERLIN))
    assert skipped.astimezone(UTC) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
