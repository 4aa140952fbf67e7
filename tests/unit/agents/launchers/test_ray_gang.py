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
    path = f"{STAND_IN}:{tmp_path}"
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PYTHONPATH": path}
    with ExitStack() as ends:

        def start(rank, driver, **more):
            command = [sys.executable, str(PROGRAM), *SIZES, sys.executable, "-c", driver]
            started = subprocess.Popen(
                command,
                env=os.environ | env | {"TESSERA_RANK": str(rank)} | more,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            ends.callback(end, started)
            return started

        yield start


def node_of(rank):
    """The pid of its node of the cluster: of its children, the one that runs Ray."""
    children = Path(f"/proc/{rank.pid}/task/{rank.pid}/children").read_text().split()
    return next(int(pid) for pid in children if "ray.scripts.scripts" in words_of(pid))


def words_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


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
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("runs", flush=True)
signal.sigwait([signal.SIGTERM])
print("saved", flush=True)
"""


def test_a_stop_reaches_the_driver_first(gang):
    head = gang(0, WAITS)
    gang(1, "")
    assert head.stdout.readline() == "runs\n"
    head.terminate()
    assert head.communicate(timeout=PATIENCE_SECONDS)[0] == "saved\n"
    assert head.returncode == 128 + signal.SIGTERM


ASKS = """
import os, ray, signal
ray.init(os.environ["RAY_ADDRESS"])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("runs", flush=True)
signal.sigwait([signal.SIGTERM])
print(len(ray.nodes()), flush=True)
"""


def test_a_stop_leaves_the_driver_its_nodes_until_it_has_ended(gang):
    head, other = gang(0, ASKS), gang(1, "")
    assert head.stdout.readline() == "runs\n"
    other.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(3)
    head.terminate()
    assert head.communicate(timeout=PATIENCE_SECONDS)[0] == "2\n"
    assert other.wait(PATIENCE_SECONDS) == 0


def test_a_rank_waits_until_the_name_of_the_head_is_known(gang):
    other = gang(1, "", MASTER_ADDR="rank-0.invalid")
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(2)


def test_a_lost_node_fails_its_rank(gang):
    head, other = gang(0, WAITS), gang(1, "")
    assert head.stdout.readline() == "runs\n"
    os.kill(node_of(other), signal.SIGKILL)
    assert other.wait(PATIENCE_SECONDS) != 0


DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("runs", flush=True)
while True:
    signal.pause()
"""


@pytest.mark.slow
def test_a_driver_that_takes_no_signal_ends_with_a_lost_head(gang):
    head = gang(0, DEAF)
    gang(1, "")
    assert head.stdout.readline() == "runs\n"
    os.kill(node_of(head), signal.SIGKILL)
    assert head.wait(PATIENCE_SECONDS) == 1


def test_the_heads_of_two_jobs_on_one_machine_share_no_port_for_clients(gang, tmp_path):
    (tmp_path / "grpc.py").touch()
    head = gang(0, WAITS)
    gang(1, "")
    assert head.stdout.readline() == "runs\n"
    words = words_of(node_of(head))
    assert words[words.index("--ray-client-server-port") + 1] not in ("0", "10001")
