"""nccl-tests over pairs of nodes: an mpirun for each pair, several at a time."""

import os
import signal
import subprocess
import sys
import time

import pytest

from agents.contract.launcher_names import LauncherName
from agents.launchers import pair_rounds
from agents.launchers.nccl_tests import PAIRS, PAIRS_FILE
from agents.launchers.registry import LAUNCHERS
from portal.node_pairs.nccl_output import read_pair_outputs
from tests.support.nccl_outputs import a_table
from tests.unit.agents.launchers.test_openmpi import launch

NCCL = LAUNCHERS[LauncherName.NCCL_TESTS]
COMMAND = (PAIRS, "0:1/1:2", "-b", "8M")
# In place of mpirun: waits until as many of them run as a round has pairs, and prints a table; over
# replica 9 it fails, over replica 8 it hangs.
MPIRUN = """#!{python}
import os, sys, time
from pathlib import Path
words = sys.argv[1:]
hosts, here = words[words.index("--host") + 1], Path(sys.argv[0]).parent
(here / hosts.replace(":", "_")).write_text(" ".join(words))
beside = here / os.environ["BESIDE"].replace(":", "_") if "BESIDE" in os.environ else here
while not beside.exists():
    time.sleep(0.01)
if "replica-8:" in hosts:
    print("it hangs", flush=True)
    time.sleep(60)
print({table!r} if "replica-9:" not in hosts else "Test NCCL failure")
sys.exit("replica-9:" in hosts)
"""


@pytest.fixture
def run(tmp_path):
    """Starts the program; what `mpirun` was called with lies beside it."""
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(MPIRUN.format(python=sys.executable, table=a_table(48)))
    mpirun.chmod(0o755)

    def start(rounds, **env):
        words = [sys.executable, pair_rounds.__file__, "4", rounds, "all_reduce_perf", "-g", "1"]
        path = f"{tmp_path}:{os.environ['PATH']}"
        return subprocess.Popen(
            words, env={**os.environ, "PATH": path, **env}, stdout=subprocess.PIPE, text=True
        )

    start.calls = tmp_path
    return start


def test_rank_0_runs_it_with_the_options_of_one_process_for_each_gpu_and_the_others_join():
    words = NCCL.command(launch(command=COMMAND, world=3))
    assert words[:2] == ["python3", "/launcher/openmpi_gang.py"] and words[2] == "run"
    assert words[3:] == [
        *("python3", f"/launcher/{PAIRS_FILE}", "4", "0:1/1:2"),
        *("all_reduce_perf", "-g", "1", "-b", "8M"),
    ]
    assert NCCL.command(launch(command=COMMAND, world=3, rank=2))[-1] == "join"
    files = NCCL.files(launch(command=COMMAND, world=3))
    assert set(files) == {"hostfile", "openmpi_gang.py", PAIRS_FILE}
    assert PAIRS_FILE not in NCCL.files(launch(command=("all_reduce_perf",), world=3))


def test_the_pairs_of_a_round_run_at_the_same_time_each_over_its_replicas(run):
    # The first of the round ends only once the other one runs.
    program = run("0:1,2+3:4", BESIDE="replica-2:4,replica-3:4,replica-4:4")
    output, _ = program.communicate(timeout=20)
    assert program.returncode == 0
    found = read_pair_outputs(output)
    assert list(found) == ["0:1", "2+3:4"]
    assert all(table.is_complete and table.best.busbw == 48 for table in found.values())
    call = (run.calls / "replica-2_4,replica-3_4,replica-4_4").read_text()
    assert "-n 12 --host replica-2:4,replica-3:4,replica-4:4" in call
    assert call.endswith("all_reduce_perf -g 1")


def test_one_that_fails_leaves_the_results_of_the_others_and_the_rounds_after_it(run):
    program = run("0:9,1:2/2:3")
    output, _ = program.communicate(timeout=20)
    assert program.returncode == 1
    found = read_pair_outputs(output)
    assert [table.is_complete for table in found.values()] == [False, True, True]
    assert found["0:9"].errors


def test_what_there_is_is_shown_when_it_is_told_to_end(run):
    program = run("0:1,2:8/1:2")
    hanging = run.calls / "replica-2_4,replica-8_4"
    while not hanging.exists():
        assert program.poll() is None
        time.sleep(0.01)
    program.send_signal(signal.SIGTERM)
    output, _ = program.communicate(timeout=20)
    assert program.returncode == 143
    assert list(read_pair_outputs(output)) == ["0:1", "2:8"]
