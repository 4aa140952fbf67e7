"""Programs that run beside a row: their lines come as they are printed, and none outlives it."""

import os
import signal
import sys

import pytest

from tests.gpu.use.clients import running
from tests.gpu.use.record import NotPossible, Record

PROGRAM = """
import json, sys
print("words of a library")
print(json.dumps({"first": 1}), flush=True)
sys.stdin.readline()
print(json.dumps({"second": 2}), flush=True)
sys.stderr.write("the end")
"""
ENDLESS = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('{}', flush=True)"
ENDLESS += "; import time; time.sleep(600)"
SECONDS = 60.0


@pytest.fixture
def record(tmp_path):
    return Record(tmp_path / "row.json", row=1, name="a", settles="b", simulated=None)


def program(text):
    return [sys.executable, "-c", text]


def test_lines_come_as_they_are_printed_and_the_end_has_all_of_them(record):
    with running(record, "", command=program(PROGRAM)) as client:
        assert client.next(SECONDS) == {"first": 1}
        client.process.stdin.write("\n")
        client.process.stdin.flush()
        assert client.next(SECONDS) == {"second": 2}
        words = client.until_end(SECONDS)
    assert (words["status"], words["stderr"]) == (0, "the end")
    assert words["lines"] == [{"first": 1}, {"second": 2}]


def test_one_that_ends_without_a_word_is_not_possible_with_its_last_words(record):
    silent = program("import sys; sys.exit('no GPU is here')")
    with running(record, "", command=silent) as client:
        with pytest.raises(NotPossible, match="no GPU is here"):
            client.next(SECONDS)
        with pytest.raises(NotPossible, match="ended"):
            client.next(SECONDS)


def test_one_that_says_nothing_in_time_is_not_possible(record):
    with (
        running(record, "", command=program("input()")) as client,
        pytest.raises(NotPossible, match=r"printed nothing within 0\.01 s"),
    ):
        client.next(0.01)


def test_one_that_is_killed_has_its_signal_as_status(record):
    with running(record, "", command=program("print('{}', flush=True); input()")) as client:
        client.next(SECONDS)
        os.kill(client.process.pid, signal.SIGKILL)
        assert client.until_end(SECONDS)["status"] == -signal.SIGKILL


def test_none_outlives_its_block_even_if_it_ignores_the_request(record, monkeypatch):
    monkeypatch.setattr("tests.gpu.use.clients.END_SECONDS", 0.2)
    with running(record, "", command=program(ENDLESS)) as client:
        client.next(SECONDS)
    assert client.process.returncode == -signal.SIGKILL


def test_a_program_that_cannot_be_run_is_not_possible(record, tmp_path):
    with (
        pytest.raises(NotPossible, match="No such file"),
        running(record, "", command=[str(tmp_path / "absent")]),
    ):
        pytest.fail("it ran")


def test_a_simulated_node_runs_none(tmp_path):
    node = Record(tmp_path / "r", row=1, name="a", settles="b", simulated=tmp_path / "driver")
    with (
        pytest.raises(NotPossible, match="runs no CUDA program"),
        running(node, "cuda_client"),
    ):
        pytest.fail("it ran")
