"""Mutation testing itself: what is broken, what is left alone, and that the break takes effect."""

import importlib.util
import sys
from dataclasses import replace

import pytest

from tests.mutants import runs
from tests.mutants.areas import AREAS, REPOSITORY, area_files
from tests.mutants.mutations import mutants_of
from tests.mutants.records import Records, Sources
from tests.mutants.runs import equivalent_mutants, sample
from tests.mutants.swapping import swap
from tests.mutants.worker import Trial


def changes(source):
    return {(m.kind, m.before, m.after) for m in mutants_of("a", "a.py", source)}


def body(*lines):
    return "def f(a, b, c):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("line", "kind", "before", "after"),
    [
        ("x = a < b", "comparison", "a < b", "a <= b"),
        ("x = a is not b", "comparison", "a is not b", "a is b"),
        ("x = a and b or c", "boolean", "a and b", "a or b"),
        ("x = a and b and c", "operand", "a and b and c", "a and c"),
        ("x = a and b", "operand", "a and b", "b"),
        ("x = not a", "sign", "not a", "a"),
        ("x = a + b", "arithmetic", "a + b", "a - b"),
        ("a -= b", "arithmetic", "a -= b", "a += b"),
        ("x = a[0]", "constant", "0", "1"),
        ("x = True", "constant", "True", "False"),
        ("if a: b()", "condition", "if a:", "if not a:"),
        ("x = b if a else c", "condition", "b if a else c", "b if not a else c"),
        ("x = [n for n in a if n]", "filter", "for n in a if n", "for n in a"),
        ("x = min(a)", "function", "min(a)", "max(a)"),
        ("x = b(a, c)", "arguments", "b(a, c)", "b(c, a)"),
        ("return a", "return", "return a", "return None"),
        ("b(a)", "statement", "b(a)", "pass"),
        ("a.b = c", "statement", "a.b = c", "pass"),
        ("raise a", "statement", "raise a", "pass"),
        ("for n in a: continue", "statement", "continue", "pass"),
    ],
)
def test_each_kind_of_change(line, kind, before, after):
    assert (kind, before.strip(), after.strip()) in changes(body(line))


@pytest.mark.parametrize(
    "source",
    [
        "MOST = 3\nx = MOST < 4",
        body('"""Adds 1 to 2."""'),
        body('log.info("%s of %s", a, b)'),
        body('x = f"{a + 1}"'),
        body("x: tuple[int, 3]"),
        body("return None"),
        body("return"),
        body("x = min"),
        "class A:\n    def __repr__(self):\n        return self.a + 1\n",
        "@wraps(1, 2)\ndef f(a=1): ...",
    ],
)
def test_texts_logs_annotations_and_declarations_are_left_alone(source):
    assert changes(source) == set()


def test_equal_changes_have_ids_of_their_own_that_do_not_depend_on_lines():
    source = body("x = a < b", "y = a < b")
    one, two = (m for m in mutants_of("a", "a.py", source) if m.kind == "comparison")
    assert one.id != two.id
    below = [m.id for m in mutants_of("a", "a.py", f"import os\n\n{source}")]
    assert {one.id, two.id} <= set(below)


def test_every_area_has_code_and_no_file_is_in_two():
    files = area_files()
    assert set(files) == set(AREAS) and all(files.values())
    listed = [path for paths in files.values() for path in paths]
    assert len(listed) == len(set(listed))


def test_a_sample_takes_as_many_of_each_area_and_stays_when_other_code_changes():
    lines = [f"x{n} = a < {n}" for n in range(9)]
    mutants = mutants_of("a", "a.py", body(*lines)) + mutants_of("b", "b.py", body("return a < b"))
    chosen = sample(mutants, 6, seed=1)
    assert [m.area for m in chosen].count("b") == 2
    smaller = [m for m in mutants if m in chosen or m.lines[0] % 2]
    assert sample(smaller, 6, seed=1) == chosen
    assert sample(mutants, 6, seed=2) != chosen


@pytest.fixture
def module(tmp_path):
    """A package of one module below `tmp_path`, imported."""
    (tmp_path / "mutated_sums.py").write_text(
        "class Sum:\n"
        "    def add(self, a, b):\n"
        "        return self.apply(lambda: a + b)\n"
        "    def apply(self, what):\n"
        "        return what()\n"
    )
    spec = importlib.util.spec_from_file_location("mutated_sums", tmp_path / "mutated_sums.py")
    module = sys.modules["mutated_sums"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutated_sums"]


def test_a_mutant_changes_the_functions_that_others_hold_already(module, tmp_path):
    source = (tmp_path / "mutated_sums.py").read_text()
    (mutant,) = (m for m in mutants_of("a", "mutated_sums.py", source) if m.kind == "arithmetic")
    held = module.Sum().add
    assert held(5, 3) == 8
    swap(mutant, tmp_path)
    assert held(5, 3) == 2
    with pytest.raises(LookupError, match=r"has no 'a \+ c'"):
        swap(replace(mutant, before="a + c"), tmp_path)


def test_a_record_chooses_the_covering_tests_also_after_an_edit(tmp_path, monkeypatch):
    path = "portal/jobs/lifecycle.py"
    (tmp_path / "portal/jobs").mkdir(parents=True)
    (tmp_path / "test_it.py").write_text("")
    source = "def f(a):\n    if a > 1:\n        return 2\n    return a\n"
    file = tmp_path / path

    def tests_of(line, text):
        file.write_text(text)
        records = Records(tmp_path / "records", Sources(tmp_path))
        assert records.missing(["test_it.py"]) == []
        mutants = mutants_of("lifecycle", path, text)
        return records.tests_for(next(m for m in mutants if m.lines[0] == line), budget=9)

    file.write_text(source)
    covered = {"slow": [2, 3], "quick": [2, 4]}
    found = {
        name: {"seconds": len(name), "lines": {path: lines}} for name, lines in covered.items()
    }
    records = Records(tmp_path / "records", Sources(tmp_path))
    records.add("test_it.py", {"tests": found, "failed": []})
    assert tests_of(2, source) == ["slow", "quick"]
    assert tests_of(3, source) == ["slow"]
    assert tests_of(5, f"import os\n\n{source}") == ["slow"], "the function only moved"
    assert tests_of(3, source.replace("> 1", "> 2")) == ["slow", "quick"], "the function changed"
    (tmp_path / "test_it.py").write_text("# new")
    assert records.missing(["test_it.py"]) == ["test_it.py"]


def test_mutants_listed_as_equivalent_exist():
    """Delete the entry of code that is gone."""
    there = {
        (m.path, m.function, m.before, m.after)
        for area, paths in area_files().items()
        for path in paths
        for m in mutants_of(area, path, (REPOSITORY / path).read_text())
    }
    assert equivalent_mutants() - there == set()


# Stands for a pytest process: it prints a lot, as many tests do, and then answers.
CHATTY = """
import os, signal
from multiprocessing.connection import Connection
signal.alarm(20)
parent = Connection(int(os.environ["TESSERA_MUTANTS_FD"]))
parent.send(["a test"])
parent.recv_bytes()
os.write(1, b"." * 1_000_000)
parent.send({"status": "survived"})
"""


def test_what_a_worker_prints_does_not_block_it(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "PYTEST", (sys.executable, "-c", CHATTY))
    worker = runs.Worker(tmp_path, ["unit"], tmp_path / "worker.log")
    assert worker.tests == ["a test"]
    assert worker.run(Trial([])) == {"status": "survived"}
    worker.close()
    assert (tmp_path / "worker.log").read_text()[:3] == "..."


def test_a_worker_that_dies_leaves_what_it_printed(monkeypatch, tmp_path):
    script = "print('no such module')"
    monkeypatch.setattr(runs, "PYTEST", (sys.executable, "-c", script))
    with pytest.raises(SystemExit, match="no such module"):
        runs.Worker(tmp_path, ["unit"], tmp_path / "worker.log")
