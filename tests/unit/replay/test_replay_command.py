"""`python -m scheduler.replay`, every kind alike: JSON only on stdout, a bar only on a terminal,
and bad options in one sentence with exit code 2."""

import io
import json
import sys

import pytest
from tqdm import tqdm

from scheduler.core.model.policy import Policy
from scheduler.core.snapshot_file import write_pass
from scheduler.replay.__main__ import KINDS, main
from tests.support.snapshots import a_cluster, a_gpu, a_job, a_node

TRACE = "job_id,num_gpu,submit_time,duration\n0,1,0,9000\n1,2,1000,5000\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,4,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + "".join(
    f"p{number},1000,1024,1,{500 if number % 2 else 1000},\n" for number in range(9)
)


@pytest.fixture
def words(tmp_path):
    """What each kind needs, small."""
    for name, text in [("trace.csv", TRACE), ("nodes.csv", NODES), ("pods.csv", PODS)]:
        (tmp_path / name).write_text(text)
    snapshot = a_cluster(a_node(a_gpu()), jobs=[a_job(gpus=1)])
    (tmp_path / "pass.json").write_text(write_pass(snapshot, Policy()))
    return {
        "openb": [f"--nodes={tmp_path}/nodes.csv", f"--pods={tmp_path}/pods.csv", "--seeds=1"],
        "philly": [f"--trace={tmp_path}/trace.csv", "--nodes=1", "--gpus-per-node=2"],
        "mig": ["--gpus=2", "--seeds=1"],
        "snapshot": [str(tmp_path / "pass.json")],
    }


@pytest.mark.parametrize(
    "kind", [*sorted(set(KINDS) - {"mig"}), pytest.param("mig", marks=pytest.mark.slow)]
)
def test_json_is_all_that_stands_on_stdout_and_stderr_is_empty_off_a_terminal(words, kind, capsys):
    assert main([kind, *words[kind], "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.endswith("\n")
    assert all(isinstance(json.loads(line), dict) for line in out.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "snapshot"])
def test_a_bar_is_drawn_on_a_terminal_and_never_on_stdout(words, kind, capsys, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(tqdm, "monitor_interval", 0)  # no thread that outlives the test
    assert main([kind, *words[kind], "--json"]) == 0
    assert "100%" in terminal.getvalue()
    assert all(json.loads(line) for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("kind", KINDS)
def test_help_says_what_a_kind_is_for_and_names_its_options(kind, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([kind, "--help"])
    assert stopped.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    assert KINDS[kind] in out
    assert "--json" in out


@pytest.mark.parametrize("wrong", [[], ["magic"], ["philly"], ["mig", "--none-such"]])
def test_words_that_make_no_command_end_with_usage_and_2(wrong, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(wrong)
    assert stopped.value.code == 2
    assert "usage: scheduler.replay" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--nodes=0", "--nodes: from 1 to 10000"),
        ("--gpus-per-node=-1", "--gpus-per-node: from 1 to 16"),
        ("--restart-cost=-1", "--restart-cost: from 0 to 86400"),
        ("--forecasts=-5", "--forecasts: from 0 to 1000000"),
        ("--seed=-1", "--seed: from 0 to 4294967295"),
        ("--limits=5-1", "--limits 5-1: write none, true, or two factors"),
        ("--limits=often", "--limits often: write none, true, or two factors"),
        ("--limits=nan-2", "--limits nan-2: write none, true, or two factors"),
        (
            "--gpus-per-node=1",
            "--nodes 1: the largest job asks for 2 GPUs, which are 2 ",
        ),
        ("--trace=none.csv", "--trace none.csv: cannot be read"),
    ],
)
def test_an_option_of_philly_out_of_range_is_one_sentence_and_2(words, capsys, option, said):
    assert main(["philly", *words["philly"], option, "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"replay philly: {said}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no job in it"),
        ("job_id,num_gpu\n1,1\n", "line 2: there is no column submit_time"),
        (
            TRACE + "2,x,0,1\n",
            "line 4: job_id, num_gpu, submit_time and duration are whole",
        ),
        (TRACE + "2,1\n", "line 4: job_id, num_gpu, submit_time and duration are whole"),
        (TRACE + "2,0,0,1\n", "line 4: a job has at least 1 GPU"),
        (TRACE + "2,1,-1,1\n", "line 4: a job has at least 1 GPU, and no time is negative"),
        (TRACE + "1,1,0,1\n", "two jobs have the number 1"),
    ],
)
def test_a_trace_that_cannot_be_played_says_where(tmp_path, capsys, text, said):
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    assert main(["philly", "--trace", str(path)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["openb", "snapshot"])
def test_a_file_that_is_not_there_is_one_sentence_and_2(words, tmp_path, kind, capsys):
    wrong = [word.replace(".csv", ".none").replace(".json", ".none") for word in words[kind]]
    assert main([kind, *wrong]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"replay {kind}: ")
    assert ".none" in err
