"""Numbers, times and what others wrote, as a terminal may show them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from portal.cli.text import (
    duration_text,
    expected_start_text,
    gpu_count_text,
    memory_text,
    single_line,
    strip_controls,
)
from tests.unit.cli.fake_rest import NOW


@pytest.mark.parametrize(
    "evil",
    [
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x1b]8;;http://evil\x1b\\",
        "\x1bP1$r\x1b\\",
        "\x9b31m",
        "\x1bc",
        "\x07\x08\x00\x7f",
        "\u202e\u2066\u200f",
    ],
)
def test_nothing_is_left_that_a_terminal_obeys(evil: str):
    assert strip_controls(f"a{evil}b") == "ab"


def test_an_escape_without_an_end_takes_only_itself():
    assert "\x1b" not in strip_controls("a\x1b")
    assert "\x1b" not in strip_controls("a\x1b]0;never ends\nnext")


def test_a_bar_that_rewrites_its_line_becomes_lines():
    assert strip_controls("10%\r20%\r\n") == "10%\n20%\n"


def test_cells_are_one_line():
    assert single_line("a\n\tb\x1b[31m ") == "a b"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (3_600, "1h"), (3_700, "1h1m"), (90_061, "1d1h"), (-5, "0s")],
)
def test_spans_have_two_units(seconds: int, text: str):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("units", "text"), [(56_000, "1"), (8_000, "0.143"), (0, "0"), (140_000, "2.5"), (None, "-")]
)
def test_units_are_told_in_gpus(units: int | None, text: str):
    assert gpu_count_text(units) == text


def test_memory_that_nobody_measured_is_no_zero():
    assert (memory_text(None), memory_text(512), memory_text(20_480)) == ("-", "512MiB", "20GiB")


def test_an_expected_start_has_its_latest():
    when = {
        "expected": (NOW + timedelta(minutes=5)).isoformat(),
        "pessimistic": (NOW + timedelta(minutes=30)).isoformat(),
    }
    assert "at the latest" in expected_start_text({"estimate": when}, NOW)


def test_no_estimate_says_why():
    told = {"estimate": None, "no_estimate": {"sentence": "it waits for an admin"}}
    assert expected_start_text(told, NOW) == "it waits for an admin"
    assert expected_start_text({}, NOW) == ""
