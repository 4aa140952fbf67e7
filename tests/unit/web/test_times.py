"""One clock: how a moment looks in the reader's zone, around midnight and where clocks change."""

import re
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from django.template import Context, Template
from django.utils import timezone, translation

from agents.contract.moments import replace_moments, write_moment
from portal.web.wording import times
from tests.support.chinese import PORTAL

SHANGHAI, NEW_YORK, BERLIN = "Asia/Shanghai", "America/New_York", "Europe/Berlin"
NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch):
    """`clock(zone, now)`: the reader's zone, and what time it is."""
    monkeypatch.setattr(timezone, "now", lambda: NOON)

    def at(zone: str, now: datetime = NOON) -> None:
        monkeypatch.setattr(timezone, "now", lambda: now)
        timezone.activate(ZoneInfo(zone))

    yield at
    timezone.deactivate()


def shown(source: str, **values: object) -> str:
    return Template("{% load times i18n %}" + source).render(Context(values))


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        (SHANGHAI, "tomorrow 00:30"),
        (NEW_YORK, "11:30"),
        ("UTC", "16:30"),
        ("Pacific/Kiritimati", "06:30"),
    ],
)
def test_the_same_moment_on_four_clocks(clock, zone, text):
    clock(zone)
    assert times.moment_text(datetime(2026, 11, 25, 16, 30, tzinfo=UTC)) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ((2026, 11, 25, 23, 59, 59), "23:59"),
        ((2026, 11, 26, 0, 0, 0), "tomorrow 00:00"),
        ((2026, 11, 27, 0, 0, 0), "27 Nov 00:00"),
        ((2026, 11, 24, 23, 59, 59), "yesterday 23:59"),
        ((2026, 11, 23, 23, 59, 59), "23 Nov 23:59"),
        ((2025, 2, 3, 14, 31, 0), "3 Feb 2025 14:31"),
    ],
)
def test_the_day_is_told_where_it_is_not_today(clock, at, text):
    clock(BERLIN)
    assert times.moment_text(datetime(*at, tzinfo=ZoneInfo(BERLIN))) == text


def test_yesterday_is_a_day_and_not_24_hours(clock):
    """Clocks went back in the night of 25 October: 25 hours ago is still yesterday."""
    clock(BERLIN, datetime(2026, 10, 25, 23, 30, tzinfo=ZoneInfo(BERLIN)))
    start = datetime(2026, 10, 25, 0, 10, tzinfo=ZoneInfo(BERLIN))
    assert times.moment_text(start) == "00:10"
    assert times.moment_text(datetime(2026, 10, 24, 23, 50, tzinfo=ZoneInfo(BERLIN))) == (
        "yesterday 23:50"
    )


def test_the_hour_that_comes_twice_is_told_apart_on_hover(clock):
    clock(BERLIN, datetime(2026, 10, 25, 12, 0, tzinfo=UTC))
    first, second = (datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1))
    assert times.moment_text(first) == times.moment_text(second) == "02:30"
    assert times.full_text(first) == "2026-10-25 02:30:00 Europe/Berlin (UTC+2)"
    assert times.full_text(second) == "2026-10-25 02:30:00 Europe/Berlin (UTC+1)"


@pytest.mark.parametrize(
    ("zone", "offset"),
    [(SHANGHAI, "UTC+8"), ("Asia/Kolkata", "UTC+5:30"), ("America/St_Johns", "UTC-3:30")],
)
def test_the_offset_has_no_more_figures_than_it_needs(clock, zone, offset):
    clock(zone)
    assert times.zone_text() == f"{zone} ({offset})"


def test_utc_is_named_once(clock):
    clock("UTC")
    assert times.full_text(NOON) == "2026-11-25 12:00:00 UTC"


def test_in_chinese(clock):
    clock(SHANGHAI)
    with translation.override("zh-hans"):
        assert times.moment_text(datetime(2026, 11, 25, 16, 30, tzinfo=UTC)) == "明天 00:30"
        assert times.moment_text(datetime(2026, 11, 22, 6, 31, tzinfo=UTC)) == "11月22日 14:31"
        assert times.date_text(date(2025, 2, 3)) == "2025年2月3日"


def test_an_element_has_the_full_moment_and_the_machines(clock):
    clock(NEW_YORK)
    assert shown("{{ at|moment_seconds }}", at=NOON) == (
        '<time datetime="2026-11-25T07:00:00-05:00"'
        ' title="2026-11-25 07:00:00 America/New_York (UTC-5)">07:00:00</time>'
    )


def test_no_time_shows_nothing(clock):
    for filtered in ("moment", "moment_seconds", "day", "at_moment"):
        assert shown("{{ at|" + filtered + " }}", at=None) == ""


def test_words_of_their_own_keep_the_moment(clock):
    clock(SHANGHAI)
    text = shown(
        "{% moment_words at note %}in {{ n }}{% endmoment_words %}", at=NOON, n="<4", note="x"
    )
    assert 'title="2026-11-25 20:00:00 Asia/Shanghai (UTC+8), x"' in text
    assert ">in &lt;4</time>" in text


def test_a_translated_sentence_holds_the_element(clock):
    clock(SHANGHAI)
    source = "{% blocktranslate with at=at|at_moment %}retry {{ at }}{% endblocktranslate %}"
    assert re.fullmatch(r"retry <time [^>]+>at 20:00</time>", shown(source, at=NOON))


def test_a_sentence_with_moments(clock):
    clock(SHANGHAI)
    sentence = f"<b> not before {write_moment(NOON)}, counted at {write_moment(NOON, seconds=True)}"
    text = shown("{{ text|moments }}", text=sentence)
    assert text.startswith("&lt;b&gt; not before <time ")
    assert re.sub("<[^>]+>", "", text) == "&lt;b&gt; not before 20:00, counted at 20:00:00"
    assert shown('<i title="{{ text|moments_plain }}">', text=sentence) == (
        '<i title="&lt;b&gt; not before 20:00, counted at 20:00:00">'
    )


def test_what_is_no_moment_stays_as_it_is():
    for text in ("2026-13-45 18:00 UTC", "12026-11-25 18:00 UTC", "2026-11-25 18:00", "18:00 UTC"):
        assert replace_moments(text, lambda at, seconds: "x") == text


def test_a_day_beyond_the_readers_calendar_stays_as_it_is(clock):
    """Anybody may write one into a reason that others read."""
    clock(SHANGHAI)
    for template in ("{{ text|moments }}", "{{ text|moments_plain }}"):
        assert shown(template, text="9999-12-31 23:59 UTC") == "9999-12-31 23:59 UTC"


def test_a_moment_is_written_in_utc_from_any_zone():
    assert write_moment(NOON.astimezone(ZoneInfo(SHANGHAI))) == "2026-11-25 12:00 UTC"
    assert write_moment(NOON.timestamp()) == "2026-11-25 12:00 UTC"


def test_no_template_or_page_writes_a_time_in_another_way():
    """`|date`, `{% now %}`, strftime and `{:%H:%M}` would show a clock that is not the reader's."""
    templates = list((PORTAL.parent / "templates").rglob("*.*"))
    own = PORTAL / "web/wording/times.py"
    code = [path for path in (PORTAL / "web").rglob("*.py") if path != own]
    wrong = re.compile(r"\|\s*(?:date|time)\b|\{%\s*now\b|strftime|%H:%M|toLocaleTimeString")
    scripts = (PORTAL / "static").glob("*.js")
    found = [
        f"{path.name}: {match[0]}"
        for path in (*templates, *code, *scripts)
        for match in wrong.finditer(path.read_text("utf-8"))
    ]
    assert found == []
