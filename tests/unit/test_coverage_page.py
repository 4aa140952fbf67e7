"""docs/coverage.md names tests, pages and commands that exist; each row shows something or says why
not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage.md"
NAMED = re.compile(r"`(tests/[\w/.]+|make [\w-]+)`")
LINKED = re.compile(r"\]\(([\w/.-]+\.md)")


def rows() -> list[list[str]]:
    """The cells of each row of the tables with evidence."""
    text = PAGE.read_text("utf-8").partition("## Ways to share, compared")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "What"]


def test_every_named_test_page_and_command_exists():
    text, makefile = PAGE.read_text("utf-8"), (ROOT / "Makefile").read_text("utf-8")
    named = set(NAMED.findall(text))
    assert len(named) > 40
    files = {name for name in named if name.startswith("tests/")}
    targets = {name.removeprefix("make ") for name in named - files}
    assert {name for name in files if not (ROOT / name).is_file()} == set()
    assert {name for name in targets if f"\n{name}:" not in makefile} == set()
    linked = set(LINKED.findall(text))
    assert {name for name in linked if not (PAGE.parent / name).is_file()} == set()


def test_every_row_names_a_test_or_says_why_there_is_none():
    assert len(rows()) > 40
    for what, works, shown in rows():
        is_shown = bool(NAMED.search(shown)) or "cli.md" in works
        assert is_shown or works.startswith("not "), what
        assert len(shown) > 20, what
