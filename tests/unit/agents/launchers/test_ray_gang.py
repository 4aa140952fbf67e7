"""The program of launcher ray: how the ranks of a gang start and end together."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = ROOT / "agents" / "launchers" / "ray_gang.py"
STAND_IN = ROOT / "tests" / "support" / "ray_stand_in"
SIZES = ("--num-cpus", "1", "--num-gpus", "0", "--")
PATIENCE_SECONDS = 120


@pytest.fixture
def gang(tmp_path):
    """Starts a rank with a driver in Python, and ends what is left of it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    env = {"TESSERA_WORLD_SIZE": "2", "TESSERA_PEERS": "127.0.0.1,127.0.0.1"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PYTHONPATH": str(STAND_IN)}
    with ExitStack() as ends:

        def start(rank, driver):
            command = [sys.executable, str(PROGRAM), *SIZES, sys.executable, "-c", driver]
            started = subprocess.Popen(
                command,
                env=os.environ | env | {"TESSERA_RANK": str(rank)},
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            ends.callback(end, started)
            return started

        yield start


def end(process):
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


COUNTS = "import os, ray; ray.init(os.environ['RAY_ADDRESS']); print(len(ray.nodes()))"


@pytest.mark.parametrize("code", [0, 3])
def test_the_driver_runs_once_all_have_joined_and_its_end_is_that_of_the_gang(gang, code):
    head, other = gang(0, f"{COUNTS}; exit({code})"), gang(1, "print('never')")
    assert (head.communicate(timeout=PATIENCE_SECONDS)[0], head.returncode) == ("2\n", code)
    assert (other.communicate(timeout=PATIENCE_SECONDS)[0], other.returncode) == ("", 0)


WAITS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
print("runs", flush=True)
while True:
    signal.pause()
"""


def test_a_stop_reaches_the_driver_first(gang):
    head = gang(0, WAITS)
    gang(1, "")
    assert head.stdout.readline() == "runs\n"
    head.terminate()
    assert head.communicate(timeout=PATIENCE_SECONDS)[0] == "saved\n"
    assert head.returncode == 128 + signal.SIGTERM


def test_a_lost_node_fails_its_rank(gang):
    head, other = gang(0, WAITS), gang(1, "")
    assert head.stdout.readline() == "runs\n"
    (node,) = Path(f"/proc/{other.pid}/task/{other.pid}/children").read_text().split()
    os.kill(int(node), signal.SIGKILL)
    assert other.wait(PATIENCE_SECONDS) != 0
