"""The Philly replay: what the planner may know, and queues that one can work out by hand."""

import json
from pathlib import Path

import pytest

from scheduler.replay.__main__ import main
from scheduler.replay.philly_data import read_trace, sample_limits

DATA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "philly_muri"
HEAD = "job_id,num_gpu,submit_time,duration\n"


def a_trace(tmp_path, *rows):
    """Rows of (GPUs, submitted, seconds)."""
    path = tmp_path / "trace.csv"
    lines = [f"{n},{gpus},{at}000,{took}000\n" for n, (gpus, at, took) in enumerate(rows)]
    path.write_text(HEAD + "".join(lines))
    return path


def replayed(capsys, path, *more):
    size = ("--nodes", "1", "--gpus-per-node", "2", "--restart-cost", "30")
    assert main(["philly", "--trace", str(path), *size, "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)


ROWS = ((2, 0, 1_000), (2, 10, 100), (1, 20, 10))


def test_first_come_first_served_waits_in_line(tmp_path, capsys):
    told = replayed(capsys, a_trace(tmp_path, *ROWS), "--policy", "fifo")
    assert told["avg_jct_s"] == round((1_000 + 1_090 + 1_090) / 3, 1)
    assert (told["makespan_s"], told["longest_wait_s"], told["preemptions"]) == (1_110, 1_080, 0)


def test_an_oracle_stops_the_long_job_and_a_restart_costs_what_was_said(tmp_path, capsys):
    """Job 0 stops at 10, job 1 at 20. Job 2 ends at 30; then 30 + 90 s and 30 + 990 s."""
    told = replayed(capsys, a_trace(tmp_path, *ROWS), "--policy", "srsf")
    assert told["preemptions"] == 2
    assert told["makespan_s"] == 1_170


def test_easy_starts_what_ends_before_the_head_is_due(tmp_path, capsys):
    path = a_trace(tmp_path, (1, 0, 100), (2, 1, 100), (1, 2, 50))
    told = replayed(capsys, path, "--policy", "easy", "--limits", "true")
    assert told["avg_jct_s"] == round((100 + 199 + 50) / 3, 1)


def test_the_same_seed_draws_the_same_limits_never_below_the_duration(tmp_path):
    trace = read_trace(a_trace(tmp_path, *ROWS * 20))
    limits = sample_limits(trace, "1-5", 1)
    assert limits == sample_limits(trace, "1-5", 1) != sample_limits(trace, "1-5", 2)
    assert all(
        job.seconds <= own <= 5 * job.seconds for job, own in zip(trace, limits, strict=True)
    )
    assert sample_limits(trace, "true", 1) == [job.seconds for job in trace]
    assert sample_limits(trace, "none", 1) is None


@pytest.mark.parametrize("preemption", ["on", "off"])
def test_without_limits_every_job_ends_and_the_answer_is_the_same_twice(
    tmp_path, capsys, preemption
):
    rows = [(1 + n % 2, 5 * n, 40 + 97 * n % 700) for n in range(20)]
    path = a_trace(tmp_path, *rows)
    how = ("--policy", "tessera", "--limits", "none", "--preemption", preemption)
    first, second = replayed(capsys, path, *how), replayed(capsys, path, *how)
    assert first | {"seconds": 0} == second | {"seconds": 0}
    assert first["longest_wait_s"] < first["makespan_s"]


@pytest.mark.slow
def test_strict_fifo_reproduces_the_known_average_of_a_trace(capsys):
    """991,215 s, by an event simulator that shares no code with Tessera."""
    path = DATA / "trace3.csv"
    if not path.is_file():
        pytest.skip("the Philly traces are not beside the repository")
    main(["philly", "--trace", str(path), "--policy", "fifo", "--json"])
    assert round(json.loads(capsys.readouterr().out)["avg_jct_s"]) == 991_215
