"""Hostile lines of a log: whatever a program writes is text on the page."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.web.logs.text import decode_line, plain_text

HARMFUL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("\x1b[1;31mloss\x1b[0m 0.3", "loss 0.3"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]0;a title\x1b\\after", "after"),
        ("\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x1b]52;c;cm0gLXJm\x07clipboard", "clipboard"),
        ("\x1b]0;never ended", "0;never ended"),
        ("\x1bPq#0;2;0;0;0\x1b\\sixel", "sixel"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b[?1049h\x1b[6nasked", "asked"),
        ("\x1b(0box\x1b(B", "box"),
        ("\x9b31mc1", "31mc1"),
        ("10%\r20%\r30%", "30%"),
        ("windows\r", "windows"),
        ("a\bb\x07c\x00d", "abcd"),
        ("pay \u202egpj.exe\u202c", "pay gpj.exe"),
        ("\u2066a\u2069\u200fb\u061c", "ab"),
        ("one\u2028two\u2029three", "onetwothree"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("tag\U000e0041\U000e007f", "tag"),
        ("\x1b", ""),
        ("\x1b[", ""),
        ("a\tb", "a\tb"),
        ("损失 é ✓ 👩\u200d💻", "损失 é ✓ 👩\u200d💻"),
    ],
)
def test_escapes_and_marks_go_and_words_stay(line, text):
    assert plain_text(line) == text


def test_bytes_that_are_no_text_are_shown_as_such():
    assert decode_line(b"ok \xff\xfe \xe6\x8d\x9f") == "ok \ufffd\ufffd 损"


@given(st.text())
def test_nothing_harmful_is_left_of_any_line(line):
    assert not HARMFUL.search(plain_text(line))


@given(st.binary())
def test_nothing_harmful_is_left_of_any_bytes(data):
    assert not HARMFUL.search(decode_line(data))


@pytest.mark.parametrize("part", ["\x1b]", "\x1bP", "\x1b[", "\x1b[1;", "\x1b_x", "\r"])
def test_a_line_of_openings_without_an_end_is_done_with(part):
    """Where each opening looked for its end through the whole line, this would not end."""
    assert "\x1b" not in plain_text(part * 300_000)
