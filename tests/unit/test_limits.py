"""The page of limits says what is so: every function, code and test that it names exists."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from agents.doctor.examination import checks_table as checks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "limits.md"
HEAD = ["Limit", "Rule", "Portal and planner", "Agent alone", "Code", "Test", "Source"]
PACKAGES = ("agents", "scheduler", "portal")
SIDES = (("Portal and planner", 2), ("Agent alone", 3))


def rows():
    """Every line of every table, as cells, without heads and rulers."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    split = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in split if row != HEAD and set("".join(row)) != {"-"}]


def programs(*folders):
    """All programs in them but those that are written to fail."""
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in paths if "failure_logs" not in path.parts]


ROWS = rows()
by_limit = pytest.mark.parametrize("row", ROWS, ids=[row[0][:60] for row in ROWS])


@pytest.fixture(scope="module")
def tests():
    texts = (path.read_text("utf-8") for path in programs("tests"))
    return {name for text in texts for name in re.findall(r"^ *def (\w+)", text, re.MULTILINE)}


@pytest.fixture(scope="module")
def words():
    """Every text constant of the product; the doctor's table has the codes of its checks."""
    trees = (ast.parse(path.read_text("utf-8")) for path in programs(*PACKAGES))
    nodes = (node for tree in trees for node in ast.walk(tree))
    found = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return found | set(named(checks()))


def named(cell):
    return re.findall(r"`([^`]+)`", cell)


def at(path):
    """What a dotted name means: its longest module, then attributes. Raises where there is none."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:length]))
        except ModuleNotFoundError as missing:
            if not ".".join(parts).startswith(missing.name or "?"):
                raise
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(path)


def test_there_are_tables_and_each_limit_stands_once():
    assert len(ROWS) > 50
    assert len({row[0] for row in ROWS}) == len(ROWS)


@by_limit
def test_a_limit_has_every_cell(row):
    assert len(row) == len(HEAD)
    assert all(row), row


@by_limit
@pytest.mark.parametrize(("side", "column"), SIDES)
def test_each_side_names_the_function_that_enforces_it_or_says_why_none_does(row, side, column):
    paths = named(row[column])
    assert bool(paths) is not row[column].startswith("no: "), (side, row[column])
    for path in paths:
        assert path.startswith(PACKAGES), path
        assert callable(at(path)), path


@by_limit
def test_its_codes_are_those_that_the_product_says(row, words):
    codes = named(row[4])
    assert codes or row[4].startswith("none: ")
    assert set(codes) <= words


@by_limit
def test_the_tests_that_prove_it_are_there(row, tests):
    proofs = named(row[5])
    assert proofs or row[5].startswith("none: ")
    assert set(proofs) <= tests


def test_a_function_that_is_not_there_would_be_found():
    for path in ("agents.mps.refusals.no_such_function", "agents.no_such_module.function"):
        with pytest.raises(AttributeError):
            at(path)
