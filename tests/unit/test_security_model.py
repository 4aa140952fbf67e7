"""The security model lists the findings of the review, each with the tests that repeat it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security-model.md"
ROW = re.compile(r"^\| (2\.\d+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
# Documented, not forbidden, or only in part: their rows say so.
OPEN = {"2.11", "2.13"}
UNTESTED = {"2.13"}


def rows() -> dict[str, list[str]]:
    """The names of tests, by finding."""
    found = ROW.findall(PAGE.read_text("utf-8"))
    return {finding: re.findall(r"`(\w+)`", tests) for finding, tests in found}


def test_each_finding_names_tests_that_exist():
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    tests = set(re.findall(r"^def (test_\w+)", sources, re.MULTILINE))
    named = rows()
    assert list(named) == [f"2.{number}" for number in range(1, 18)]
    assert {finding for finding, names in named.items() if not names} == UNTESTED
    rest = dict(ROW.findall(PAGE.read_text("utf-8")))
    assert {finding for finding, tests in rest.items() if "see above" in tests} == OPEN
    assert {name for names in named.values() for name in names} - tests == set()


def test_each_finding_that_a_test_mentions_is_a_row():
    ours = Path(__file__)
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py") if path != ours]
    mentions = re.compile(r"(?:finding_2_|[Ff]indings? 2\.)(\d+)")
    mentioned = {f"2.{number}" for text in texts for number in mentions.findall(text)}
    assert mentioned - rows().keys() == set()
    assert len(mentioned) > 10
