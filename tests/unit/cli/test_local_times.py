"""The command line shows the terminal's own zone, also inside the portal's sentences."""

import time
from datetime import UTC, datetime

import pytest

from agents.contract.moments import write_moment
from portal.cli.text import clock_text, single_line

NOON = datetime(2026, 11, 25, 20, 30, tzinfo=UTC)


@pytest.fixture(params=[("Asia/Shanghai", "2026-11-26 04:30"), ("UTC", "2026-11-25 20:30")])
def terminal(request, monkeypatch):
    """What 20:30 UTC is in the terminal's zone."""
    zone, shown = request.param
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    yield shown
    monkeypatch.undo()
    time.tzset()


def test_a_time_has_its_date_where_it_is_not_today(terminal):
    assert clock_text(NOON, datetime(2026, 1, 1, tzinfo=UTC)) == terminal
    assert clock_text(NOON, NOON) == terminal.split()[1]


def test_a_moment_in_a_sentence_is_local(terminal):
    line = single_line(f"not before {write_moment(NOON)}, \x1b[31mafter that")
    assert line.startswith(f"not before {terminal} ")
    assert line.endswith(", after that")


def test_what_is_no_moment_stays():
    assert single_line("2026-13-45 18:00 UTC and 18:00") == "2026-13-45 18:00 UTC and 18:00"
