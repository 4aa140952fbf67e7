"""The rows of the level `use`: how they are chosen, and what becomes of what they say."""

import json
import stat
import sys
from itertools import chain
from pathlib import Path

import pytest

from agents.nvml.errors import NvmlCode, NvmlFailure
from tests.gpu.use.record import NotPossible, Record, lines_of
from tests.gpu.use.row import outcome
from tests.gpu.use.rows import ROWS, chosen

MAX_COMMAND = 2_000
DOCS = Path(__file__).parents[3] / "docs" / "testing-on-hardware.md"


def a_record(folder, simulated=None):
    return Record(folder / "row.json", row=1, name="a", settles="b", simulated=simulated)


def written(record):
    return json.loads(record.path.read_text())


def numbers(words):
    return [row.number for row in chosen(words)]


def test_every_row_has_a_function_and_a_file_of_its_own():
    assert [row.number for row in ROWS] == [*range(1, 14)]
    assert len({row.file for row in ROWS}) == len(ROWS)
    assert all(callable(row.load()) for row in ROWS)


def test_rows_are_chosen_by_number_and_range():
    assert numbers("") == [*range(1, 14)]
    assert numbers("12,1-3") == [12, 1, 2, 3]


@pytest.mark.parametrize("words", ["0", "14", "a", "1-", "-3", "1,,2", "1-99"])
def test_a_row_that_is_not_there_is_refused(words):
    with pytest.raises(ValueError, match="is no row from 1 to 13"):
        chosen(words)


def test_each_command_of_the_documentation_fits_a_machine_that_is_lent_for_ten_minutes():
    lines = [line.strip() for line in DOCS.read_text("utf-8").splitlines()]
    commands = [line for line in lines if "LEVEL=use ROWS=" in line and "make test-gpu" in line]
    rows = [numbers(line.split("ROWS=")[1].split()[0]) for line in commands]
    assert sorted(chain.from_iterable(rows)) == [*range(1, 14)]
    by_number = {row.number: row for row in ROWS}
    for command, chosen_rows in zip(commands, rows, strict=True):
        assert len(command) <= MAX_COMMAND
        # And the summary: a lent machine gives eight files back.
        assert len(chosen_rows) + 1 <= 8
        assert sum(by_number[number].seconds for number in chosen_rows) <= 580


def test_a_step_keeps_its_answer_or_the_reason_why_there_is_none(tmp_path):
    record = a_record(tmp_path)
    assert record.step("good", lambda: 5) == 5

    def impossible():
        raise NotPossible("this machine has no such thing")

    def refused():
        raise NvmlFailure(NvmlCode.NO_PERMISSION, "the driver refuses")

    assert record.step("impossible", impossible) is None
    record.step("refused", refused)
    record.step("broken", lambda: 1 / 0)
    record.step("absent", (tmp_path / "absent").read_text)
    steps = written(record)["steps"]
    assert [step["outcome"] for step in steps.values()] == [
        "done",
        "not_possible",
        "failed",
        "failed",
        "not_possible",
    ]
    assert steps["absent"]["reason"] == f"{tmp_path}/absent: No such file or directory"
    assert steps["impossible"]["reason"] == "this machine has no such thing"
    assert steps["refused"]["code"] == "no_permission"
    assert "ZeroDivisionError" in steps["broken"]["reason"]


def test_what_a_row_has_is_on_disk_before_its_next_step(tmp_path):
    record = a_record(tmp_path)
    record.step("first", lambda: "words")
    record.step("second", lambda: written(record)["steps"]["first"]["answer"])
    assert written(record)["steps"]["second"]["answer"] == "words"
    assert written(record)["outcome"] == "unfinished"


def test_a_row_is_not_possible_only_if_none_of_it_is(tmp_path):
    record = a_record(tmp_path)

    def impossible():
        raise NotPossible("no GPU")

    record.step("one", impossible)
    assert outcome(record) == ("not_possible", "no GPU")
    record.step("two", lambda: None)
    assert outcome(record) == ("done", "")
    record.step("three", lambda: 1 / 0)
    assert outcome(record)[0] == "failed"


def test_the_words_of_a_program_are_kept_with_its_status(tmp_path):
    program = "import sys; print('out'); sys.stderr.write('err'); sys.exit(3)"
    words = a_record(tmp_path).words_of([sys.executable, "-c", program])
    assert (words["status"], words["stdout"], words["stderr"]) == (3, "out\n", "err")


def test_a_program_that_does_not_end_is_ended_and_its_words_are_kept(tmp_path):
    program = ["sh", "-c", "echo begun; exec sleep 600"]
    words = a_record(tmp_path).words_of(program, seconds=1.5)
    assert (words["late_after"], words["stdout"]) == (1.5, "begun\n")


def test_a_missing_program_and_one_that_may_not_be_run_have_a_reason(tmp_path):
    record = a_record(tmp_path)
    with pytest.raises(NotPossible, match="has no /nowhere/nvidia-smi"):
        record.words_of(["/nowhere/nvidia-smi"])
    barred = tmp_path / "barred"
    barred.write_text("#!/bin/sh\n")
    barred.chmod(stat.S_IRUSR)
    with pytest.raises(NotPossible, match="Permission denied"):
        record.words_of([str(barred)])


def test_on_a_simulated_node_no_tool_of_nvidias_is_run(tmp_path):
    """It would speak of another GPU than the simulated one."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho a real GPU\n")
    tool.chmod(0o755)
    assert a_record(tmp_path).words_of([str(tool)])["stdout"] == "a real GPU\n"
    with pytest.raises(NotPossible, match="a simulated node has no nvidia-smi"):
        a_record(tmp_path, simulated=tmp_path / "driver.json").words_of([str(tool)])


def test_json_lines_are_found_among_what_libraries_print():
    assert lines_of('warning\n{"a": 1}\n\n{"b": 2}\nend') == [{"a": 1}, {"b": 2}]
