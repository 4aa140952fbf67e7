"""What people type is read as they mean it; what cannot be read is answered with what is near."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from scheduler.core.request import InvalidRequest, RequestLimits, parse_request
from scheduler.core.request.quantities import read_seconds
from scheduler.core.request.typed_text import meant_count, probably_meant, read_typed
from scheduler.core.request_fields import FieldKind

# A Wednesday.
NOW = datetime(2026, 11, 25, 18, 20, tzinfo=ZoneInfo("Asia/Shanghai"))
DURATION, SIZE, CPU, BEGIN = FieldKind.DURATION, FieldKind.SIZE, FieldKind.CPU, FieldKind.BEGIN
READ = [
    *(
        (DURATION, text, "2h")
        for text in ("2 hours", "2h", " 2h ", "2:00", "120m", "2小时", "两小时")
    ),
    *((DURATION, text, "30m") for text in ("half an hour", "半小时", "半个小时", "30分钟", "0.5h")),
    *(
        (DURATION, text, "1h30m")
        for text in ("1:30", "1：30", "1.5 hours", "1个半小时", "1小时30分")
    ),
    *(
        (DURATION, text, "1h30m")
        for text in ("1 hour and 30 minutes", "90", "90分钟", "1\u00a0h 30 min")
    ),
    *((DURATION, text, "1d") for text in ("a day", "1天", "一天", "24 hours", "1-0")),
    *((DURATION, text, "14h40m") for text in ("tomorrow 9:00", "9:00 tomorrow", "tomorrow at 9")),
    *(
        (DURATION, text, "14h40m")
        for text in ("until tomorrow 9am", "明天9点", "明天上午9点", "明早9点")
    ),
    *((DURATION, text, "1h40m") for text in ("today 20:00", "tonight 8pm", "今晚8点", "今天20:00")),
    *(
        (DURATION, text, "1d23h40m")
        for text in ("friday 18:00", "fri 6pm", "周五18点", "星期五下午6点")
    ),
    *((DURATION, text, "6d23h40m") for text in ("wednesday 18:00", "2026-12-02 18:00")),
    *((SIZE, text, "16GiB") for text in ("16", "16gb", "16 GiB", " 16G ", "１６ＧＢ", "16384MiB")),
    (SIZE, "4096", "4GiB"),
    *((CPU, text, "2") for text in ("2", "2 CPUs", "2 cores", "2核", "2000m")),
    (BEGIN, "2026-11-28 18:00", "2026-11-28T18:00:00+08:00"),
    (BEGIN, "明天8点", "2026-11-26T08:00:00+08:00"),
    (BEGIN, "2026-11-28T18:00:00+01:00", "2026-11-28T18:00:00+01:00"),
    (BEGIN, "+2h", "+2h"),
    (BEGIN, "tomorrow", "2026-11-26T00:00:00+08:00"),
    (BEGIN, "18:00", "2026-11-26T18:00:00+08:00"),
]


@pytest.mark.parametrize(("kind", "text", "written"), READ)
def test_a_text_is_read_as_it_is_meant(kind, text, written):
    assert read_typed(kind, text, NOW).written == written


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (DURATION, "90", "90 minutes"),
        (DURATION, "1", "1 minute"),
        (DURATION, "tomorrow 9:00", "until 2026-11-26 01:00 UTC, 14h40m from now"),
        (DURATION, "2 hours", None),
        (SIZE, "16", "16 GB"),
        (SIZE, "4096", "4 GB"),
        (SIZE, "16gb", None),
        (BEGIN, "2026-11-28 18:00", "2026-11-28 10:00 UTC"),
        (BEGIN, "+2h", None),
        (BEGIN, "2026-11-28T18:00:00+01:00", None),
    ],
)
def test_what_a_text_leaves_open_is_said(kind, text, said):
    reading = read_typed(kind, text, NOW).reading
    assert (reading and reading.text) == said


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((DURATION, text) for text in ("", "soon", "today 9:00", "tomorrow", "tomorrow 25:00")),
        *((DURATION, text) for text in ("2026-02-31 9:00", "tomorrow 13pm", "9:00 tomorrow 9:00")),
        *((SIZE, text) for text in ("", "lots", "GB")),
        (CPU, "a few"),
        *((kind, "0001-01-01 5:00") for kind in (DURATION, BEGIN)),
        (BEGIN, "soon"),
    ],
)
def test_what_cannot_be_read_is_left_to_the_check(kind, text):
    assert read_typed(kind, text, NOW).written == text


def test_the_time_until_a_clock_counts_the_hour_that_summer_time_takes():
    evening = datetime(2026, 3, 28, 20, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    written = read_typed(DURATION, "tomorrow 9:00", evening).written
    assert timedelta(seconds=read_seconds(written)) == timedelta(hours=12)


@pytest.mark.parametrize(
    ("kind", "text", "meant"),
    [
        *((DURATION, text, "2h") for text in ("2 hourz", "~2h", "-2h")),
        *((DURATION, text, "1h30m") for text in ("30m1h", "1h-30m", "90")),
        (DURATION, "1w", "7d"),
        (DURATION, "1:3", "1h3m"),
        *((SIZE, text, "16 GB") for text in ("16 gigs", "16gbb", "16", 16)),
        (SIZE, "4,5GB", "4.5 GB"),
        (CPU, "5 potatoes", "5"),
        *(
            (kind, text, "")
            for kind in (DURATION, SIZE, CPU)
            for text in ("lots", "", None, [], True)
        ),
    ],
)
def test_something_near_is_offered_for_what_cannot_be_read(kind, text, meant):
    assert probably_meant(kind, text) == meant


@pytest.mark.parametrize(
    ("text", "count"), [("two", 2), ("--5", 5), ("3 nodes", 3), ("many", None), (None, None)]
)
def test_a_count_is_found_in_its_text(text, count):
    assert meant_count(text) == count


BODY = {
    **{"project": "vision", "name": "sum", "image": "busybox", "command": ["true"]},
    "device": {"gpus": 1},
}


@pytest.mark.parametrize(
    ("fields", "suggestion"),
    [
        ({"time_limit": "2 hourz"}, {"time_limit": "2h"}),
        ({"time_limit": "90"}, {"time_limit": "1h30m"}),
        ({"time_limit": "30d"}, {"time_limit": "7d"}),
        ({"memory": "16"}, {"memory": "16 GB"}),
        ({"replicas": "two"}, {"replicas": 2}),
        ({"replicas": 1000}, {"replicas": 64}),
        ({"name": "nine lives"}, {"name": "nine-lives"}),
        (
            {"device": {"memory": "16 gigs", "models": ["H200"]}},
            {"device": {"memory": "16 GB", "models": ["H200"]}},
        ),
    ],
)
def test_a_refusal_offers_a_request_that_is_accepted(fields, suggestion):
    with pytest.raises(InvalidRequest) as refused:
        parse_request(BODY | fields, RequestLimits())
    (error,) = refused.value.errors
    assert error.suggestion == suggestion
    assert parse_request(BODY | fields | dict(error.suggestion), RequestLimits())
