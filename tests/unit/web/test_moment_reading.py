"""A moment as people type it is understood in their own zone."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from portal.web.moment_reading import read_moment

# 20:00 in Shanghai.
NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def in_shanghai():
    with timezone.override(ZoneInfo("Asia/Shanghai")):
        yield


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


def test_a_time_that_the_clock_skips_is_the_one_after_the_gap():
    with timezone.override(ZoneInfo("Europe/Berlin")):
        skipped = read_moment("2026-03-29 02:30", NOW)
    assert skipped.astimezone(UTC) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
