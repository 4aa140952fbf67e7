"""`make test-gpu LEVEL=use` proven without a GPU: what the simulated driver can answer, and that
what it cannot is named with the reason, never left out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents.simdriver.codes import Code
from agents.simdriver.faults import fail_next
from agents.simdriver.library import symbols
from tests.contract.gpu_suite import a_node, used
from tests.contract.test_gpu_suite import NO_LIBRARY
from tests.gpu.use.programs_guard import reason
from tests.gpu.use.rows_load import NCU
from tests.support.examples import first_quick

# A row that does what no row may, in place of the first: `board` is looked up in its own process.
MEDDLER = """
import subprocess, pynvml
def board(record):
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    try:
        {call}
    except BaseException:
        pass
    record.step("unharmed", lambda: True)
"""
CALLS = (
    "pynvml.nvmlDeviceSetMigMode(gpu, 1)",
    "pynvml.nvmlDeviceSetComputeMode(gpu, 3)",
    "pynvml.nvmlDeviceSetPersistenceMode(gpu, 1)",
    "pynvml.nvmlDeviceSetGpuLockedClocks(gpu, 300, 300)",
    "pynvml.nvmlDeviceSetEccMode(gpu, 0)",
    "pynvml.nvmlLib.nvmlDeviceSetMigMode(gpu, 1, None)",
    "subprocess.run(['nvidia-smi', '--gpu-reset'])",
    "subprocess.run(['nvidia-smi', '-mig', '1'])",
    "subprocess.run('nvidia-smi -pm 1', shell=True)",
)
ONE_ROW = """
import sys
from pathlib import Path
from tests.gpu.use import row, rows_driver
exec(Path(sys.argv[1]).read_text(), vars(rows_driver))
sys.exit(row.main(1, Path(sys.argv[2]), Path(sys.argv[3])))
"""


def meddled(folder, store, call):
    """The exit status of a row that makes this call, and its file's text."""
    meddler, path = folder / "meddler.py", folder / "row.json"
    meddler.write_text(MEDDLER.format(call=call))
    done = subprocess.run(
        [sys.executable, "-c", ONE_ROW, str(meddler), str(path), str(store.path)],
        cwd=Path(__file__).parents[2], check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, path.read_text()


def settings(store):
    return [(g.mig_current, g.mig_pending, g.compute_mode) for g in store.node().gpus]


def test_the_driver_rows_say_what_the_driver_said(tmp_path):
    done = used(tmp_path, "1-4", store=a_node(tmp_path))
    assert done.status == 0, done.err
    board = done.steps(1)
    assert board["gpu0 facts"]["product_name"] == "NVIDIA H200"
    assert board["gpu0 fields"]["is_mig_mode_independent"] == {"code": 0, "value": 1}
    first = board["gpu0 profiles by V2"][0]
    assert (first["code"], first["value"]["name"]) == ("SUCCESS", "MIG 1g.18gb")
    assert {one["code"] for one in board["gpu0 profiles by V3"]} == {"ARGUMENT_VERSION_MISMATCH"}
    assert done.impossible(1)["nvidia-smi -q -x"] == "a simulated node has no nvidia-smi"
    latency = done.steps(2)
    assert len(latency) == 9
    assert all(0 < one["p50"] <= one["p99"] <= one["longest"] for one in latency.values())
    assert latency["handle by UUID in 4 threads"]["calls"] == 800
    assert done.steps(3)["GPM"]["code"] == "SUCCESS"
    assert done.rows[4]["outcome"] == "not_possible"
    assert [row["row"] for row in done.summary["rows"]] == [1, 2, 3, 4]
    assert done.summary["simulated"] is True


@pytest.mark.slow
def test_a_refusal_fails_its_step_in_the_drivers_words_and_the_others_go_on(tmp_path):
    store, symbol = a_node(tmp_path), "nvmlDeviceGetGpuInstanceProfileInfoV"
    with store.change() as node:
        fail_next(node, Code.NO_PERMISSION, symbol, 1, frozenset(symbols()))
    done = used(tmp_path, "1", store=store)
    refused = done.rows[1]["steps"]["gpu0 profiles"]
    assert (refused["outcome"], refused["code"]) == ("failed", "no_permission")
    assert "Insufficient Permissions" in refused["reason"]
    assert done.steps(1)["gpu0 profiles by V2"][0]["code"] == "SUCCESS"
    assert (done.status, done.rows[1]["outcome"]) == (1, "failed")


@pytest.mark.slow
def test_events_and_load_are_read_from_the_node(tmp_path):
    done = used(tmp_path, "5,7", store=a_node(tmp_path))
    assert done.status == 0, done.err
    events = done.steps(5)
    assert len(events["registered"]) == 1
    assert events["a quiet wait"]["event"] == "None"
    assert done.impossible(5)["an illegal address"].startswith("not requested: FAULT=1")
    idle = done.steps(7)["idle before"]
    assert idle[-1]["samples"][0]["active_percent"] == 0
    assert done.impossible(7) == {"at full load": "a simulated node runs no CUDA program"}


@pytest.mark.slow
def test_mps_answers_word_for_word_and_nothing_of_it_is_left(tmp_path):
    store = a_node(tmp_path)
    before = settings(store)
    done = used(tmp_path, "9", store=store)
    assert done.status == 0, done.err
    steps = done.steps(9)
    assert steps["launch"]["daemon"]["comm"] == "nvidia-cuda-mps"
    assert "nvidia-cuda-mps-control.pid" in steps["launch"]["pipe"]
    assert "Unknown command" in steps["refusals"][0]["stdout"]
    limits = {one["command"]: one["stdout"].strip() for one in steps["limits of the server"]}
    assert [value for name, value in limits.items() if name.startswith("get_active")] == ["20.0"]
    assert steps["quit -t 2"]["left"] == []
    orphaned = steps["the control daemon is killed"]
    assert orphaned["daemon"] != orphaned["again"]["daemon"]["pid"]
    pids = [orphaned["daemon"], orphaned["server"], orphaned["again"]["daemon"]["pid"]]
    assert [pid for pid in pids if is_of_mps(pid)] == []
    assert settings(store) == before


def is_of_mps(pid):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"mps_control.py" in words


@pytest.mark.slow
def test_the_agent_runs_jobs_behind_the_guards(tmp_path):
    done = used(tmp_path, "13", store=a_node(tmp_path), AGENT_SECONDS="12")
    assert done.status == 0, done.err
    run = done.steps(13)["run"]
    assert (run["status"], run["ended_by_itself"]) == (0, True)
    assert run["replicas"]
    assert {replica["exit_code"] for replica in run["replicas"]} == {0}
    assert "worked\n" in run["logs"].values()
    assert run["every_second"][-1]["rounds"] > 1
    assert done.rows[13]["refused"] == []


def test_what_needs_a_gpu_says_so(tmp_path):
    done = used(tmp_path, "6,8,10-12", store=a_node(tmp_path))
    assert done.status == 0
    outcomes = {row["row"]: (row["outcome"], row["reason"]) for row in done.summary["rows"]}
    assert outcomes == dict.fromkeys(
        (6, 8, 10, 11, 12), ("not_possible", "a simulated node runs no CUDA program")
    )


@pytest.mark.parametrize("call", first_quick(*CALLS))
def test_a_row_that_tries_to_change_the_gpu_fails_and_changes_nothing(tmp_path, call):
    store = a_node(tmp_path)
    before = settings(store)
    status, text = meddled(tmp_path, store, call)
    assert status == 1
    assert '"outcome": "failed"' in text
    assert '"refused": []' not in text
    assert settings(store) == before


def test_a_row_that_changes_nothing_passes_the_same_way(tmp_path):
    status, text = meddled(tmp_path, a_node(tmp_path), "pynvml.nvmlDeviceGetName(gpu)")
    assert (status, '"outcome": "done"' in text) == (0, True)


def test_a_setting_that_changes_meanwhile_fails(tmp_path):
    store = a_node(tmp_path)
    meddling = (
        "from tests.gpu.use import suite\n"
        "from agents.simdriver.store import Store\n"
        "run_row = suite._run\n"
        "def meddle(*arguments):\n"
        f"    with Store(Path({str(store.path)!r})).change() as node:\n"
        "        node.gpus[0].mig_pending = 1\n"
        "    return run_row(*arguments)\n"
        "suite._run = meddle"
    )
    done = used(tmp_path, "3", store=store, doctoring=meddling)
    assert done.status == 1
    (sentence,) = done.summary["changed_meanwhile"]
    assert "mig_mode changed meanwhile" in sentence and sentence in done.err


@pytest.mark.slow
def test_a_row_that_does_not_end_is_ended_and_keeps_what_it_has(tmp_path):
    """Row 7 looks at an idle node for two seconds, twice."""
    hurried = (
        "from dataclasses import replace\n"
        "from tests.gpu.use import rows\n"
        "rows.ROWS = tuple(replace(row, seconds=3.2) for row in rows.ROWS)"
    )
    done = used(tmp_path, "7", store=a_node(tmp_path), doctoring=hurried)
    assert done.status == 1
    assert done.rows[7]["outcome"] == "failed"
    assert done.rows[7]["reason"] == "it did not end within 3.2 s"


def test_without_a_driver_it_says_so_in_one_sentence(tmp_path):
    done = used(tmp_path, "", store=None, doctoring=NO_LIBRARY)
    assert done.status == 3
    assert done.err.startswith("No NVIDIA driver answers on this machine")
    assert (done.err.count("\n"), done.summary, done.rows) == (1, {}, {})


def test_a_simulated_driver_in_the_environment_is_not_taken_for_a_real_one(tmp_path):
    state = str(a_node(tmp_path).path)
    done = used(tmp_path, "", store=None, doctoring=NO_LIBRARY, TESSERA_SIMULATED_DRIVER=state)
    assert done.status == 3


def test_a_row_that_is_not_there_is_refused_in_a_sentence(tmp_path):
    done = used(tmp_path, "1,77", store=a_node(tmp_path))
    assert (done.status, done.err) == (2, "ROWS=1,77: '77' is no row from 1 to 13\n")


def test_make_passes_level_and_rows_and_the_folder(tmp_path):
    """As far as `make` goes without a driver: the command line that it would run."""
    done = subprocess.run(
        ["make", "-n", "test-gpu", "LEVEL=use", "ROWS=1-4,12", f"OUT={tmp_path}"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
        env=os.environ | {"MAKEFLAGS": ""},
    )  # fmt: skip
    assert "-m tests.gpu --level use --rows 1-4,12" in done.stdout


def test_the_profiler_is_run_so_that_it_leaves_the_clocks_alone():
    assert reason(["/opt/ncu", *NCU, sys.executable, "work.py"]) == ""


def test_an_agent_that_tries_to_change_the_gpu_is_stopped_and_recorded(tmp_path):
    """The agent of row 13, with a first call that no agent should make."""
    store, refused = a_node(tmp_path), tmp_path / "refused"
    meddling = (
        "import sys, pynvml, agents.commands.run as command\n"
        "from pathlib import Path\n"
        "from tests.gpu.use import guarded_agent\n"
        "def main(options):\n"
        "    pynvml.nvmlDeviceSetMigMode(None, 1)\n"
        "command.main = main\n"
        f"guarded_agent.main(Path({str(refused)!r}), {str(store.path)!r}, "
        "['run', '--portal', 'http://127.0.0.1:1'])"
    )
    before = settings(store)
    done = subprocess.run(
        [sys.executable, "-c", meddling], cwd=Path(__file__).parents[2], check=False, timeout=60,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Forbidden" in done.stderr
    assert refused.read_text() == "nvmlDeviceSetMigMode"
    assert settings(store) == before
