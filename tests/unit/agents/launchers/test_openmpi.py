"""Open MPI: one mpirun for the whole gang, no ssh, and a key that only the gang has."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from agents.contract.documents import Rendezvous
from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, LaunchRequest
from agents.launchers.nested import nested_launcher
from agents.launchers.registry import LAUNCHERS
from agents.workspace.folders import IN_CONTAINER
from tests.unit.agents.documents import a_replica

OPENMPI = LAUNCHERS[LauncherName.OPENMPI]
PLACE = Rendezvous("10.0.0.1", 29_500, ("10.0.0.1", "10.0.0.2"))
# In place of mpirun: starts its command by the agent in each replica, hands it what it reads, and
# ends as the last of them.
MPIRUN = """
import os, subprocess, sys
agent, codes = os.environ["PRTE_MCA_plm_ssh_agent"].split(), []
for rank in range(int(os.environ["TESSERA_WORLD_SIZE"])):
    words = [*agent, f"replica-{rank}", *sys.argv[1:]]
    codes.append(subprocess.run(words, input=b"a key", check=False).returncode)
sys.exit(codes[-1])
"""


def launch(rank=0, meeting=PLACE, folder=IN_CONTAINER.launcher, **fields):
    fields = {"command": ("./a.out", "-v"), "processes": 4} | fields
    return Launch(a_replica(launcher="openmpi", rank=rank, **fields), meeting, folder)


def test_rank_0_starts_the_processes_of_all_and_the_others_join_it():
    words = OPENMPI.command(launch())
    assert words[words.index("-n") + 1] == "8" and words[-2:] == ["./a.out", "-v"]
    assert OPENMPI.command(launch(rank=1))[-1] == "join"
    assert OPENMPI.files(launch())["hostfile"] == "replica-0 slots=4\nreplica-1 slots=4\n"


def test_replicas_of_one_address_share_no_memory_unless_the_user_says_so():
    together = Rendezvous("127.0.0.1", 29_500, ("127.0.0.1", "127.0.0.1"))
    assert OPENMPI.environment(launch(meeting=together))["OMPI_MCA_btl"] == "self,tcp"
    chosen = launch(meeting=together, env={"OMPI_MCA_btl": "self,sm"})
    assert "OMPI_MCA_btl" not in OPENMPI.environment(chosen)
    assert "OMPI_MCA_btl" not in OPENMPI.environment(launch())


def test_a_nested_mpirun_is_mended_unless_options_of_its_own_would_be_lost():
    def mended(*command):
        return nested_launcher(LauncherName.TORCHRUN, LaunchRequest(command, gpus=4)).changes

    call = ("mpirun", "-np", "4", "--hostfile", "h", "--allow-run-as-root", "./a.out", "-n", "2")
    assert mended(*call) == {"launcher": "openmpi", "command": ["./a.out", "-n", "2"]}
    lost = mended("mpirun", "--mca", "btl", "tcp", "./a.out")
    assert lost == {"launcher": "none", "processes": 1}


def test_nccl_tests_are_one_process_in_one_replica_and_one_for_each_gpu_over_several():
    nccl, command = LAUNCHERS[LauncherName.NCCL_TESTS], ("all_reduce_perf", "-b", "8")
    alone = launch(command=command, world=1)
    assert nccl.command(alone) == ["all_reduce_perf", "-g", "4", "-b", "8"]
    assert not nccl.files(alone) and not nccl.environment(alone)
    words = nccl.command(launch(command=command))
    assert words[words.index("-n") + 1] == "8"
    assert words[-5:] == ["all_reduce_perf", "-g", "1", "-b", "8"]
    assert nccl.command(launch(command=command, rank=1))[-1] == "join"
    for counts in (("-g", "8"), ("-g8",), ("--ngpus=8",), ("-t2", "-g", "4")):
        refused = nccl.request_refusal(LaunchRequest((*command, *counts), gpus=8))
        assert refused.changes == {"command": [*command]}
    assert nccl.request_refusal(LaunchRequest(command, replicas=2)).field == "device"


@pytest.mark.parametrize("name", ["openmpi", "nccl-tests"])
def test_words_that_mpirun_would_read_as_its_own_are_refused(name):
    def refused(*command):
        request = LaunchRequest(command, replicas=2, gpus=1)
        return LAUNCHERS[LauncherName(name)].request_refusal(request)

    found = refused("-n", "64", "./a.out", "-n", "2")
    assert (found.field, found.changes) == ("command", {"command": ["./a.out", "-n", "2"]})
    assert "OMPI_MCA_" in found.why.text
    assert refused("--mca", "btl", "tcp", "./a.out").changes == {}
    assert refused("-n", "64").changes == {}
    assert refused("./a.out", ":", "-n", "8", "./b.out").field == "command"
    assert refused("./a.out", "-n", "a:b") is None


@pytest.fixture
def folder(request, tmp_path):
    """Of the launcher's files."""
    folder = tmp_path / getattr(request, "param", "launcher")
    folder.mkdir()
    return folder


@pytest.fixture
def gang(tmp_path, folder):
    """Starts the replicas of a gang as plain processes; each with its own key."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    program = folder / "openmpi_gang.py"
    program.write_text(OPENMPI.files(launch())["openmpi_gang.py"])
    program.chmod(0o555)
    agent = OPENMPI.environment(launch(folder=folder))["PRTE_MCA_plm_ssh_agent"]
    (tmp_path / "mpirun.py").write_text(MPIRUN)
    with ExitStack() as stack:

        def start(rank, *words, world=2, key="the key of this attempt"):
            home = tmp_path / f"rank-{rank}"
            home.mkdir(exist_ok=True)
            (home / "TESSERA_GANG_KEY").write_text(key)
            env = {
                "PATH": os.environ["PATH"],
                "TMPDIR": str(home),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "TESSERA_RANK": str(rank),
                "TESSERA_WORLD_SIZE": str(world),
                "TESSERA_SECRETS_DIR": str(home),
                "PRTE_MCA_plm_ssh_agent": agent,
            }
            role = ["run", sys.executable, str(tmp_path / "mpirun.py"), *words]
            command = [sys.executable, str(program), *(role if rank == 0 else ["join"])]
            pipe = subprocess.PIPE
            replica = stack.enter_context(
                subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, cwd=home)
            )
            stack.callback(replica.kill)
            return replica

        start.port = port
        yield start


SAY = """'import os, sys; print(os.environ["TESSERA_RANK"], sys.stdin.read()); sys.exit({})'"""


@pytest.mark.parametrize(
    ("folder", "code"), [("launcher", 0), ("launcher", 7), ("of a node", 7)], indirect=["folder"]
)
def test_what_mpirun_starts_runs_in_each_replica_and_all_end_as_it_does(gang, code, tmp_path):
    first = gang(0, sys.executable, "-c", SAY.format(code))
    other = gang(1)
    said, problems = first.communicate(timeout=30)
    assert said.decode().splitlines() == ["0 a key", "1 a key"], problems
    assert (first.returncode, other.wait(30)) == (code, code)
    assert not list(tmp_path.glob("rank-0/tessera-gang-*"))


def test_a_caller_with_another_key_is_not_let_in_and_the_gang_goes_on(gang):
    first, stranger = gang(0, "echo", "here"), gang(1, key="a guess")
    with pytest.raises(subprocess.TimeoutExpired):
        stranger.wait(1)
    stranger.kill()
    assert first.poll() is None
    assert gang(1).wait(30) == 0
    assert first.communicate(timeout=30)[0].decode().split() == ["here", "here"]


def test_a_replica_that_is_stopped_before_it_has_met_rank_0_ends(gang):
    with socket.create_server(("127.0.0.1", gang.port)) as silent:
        other = gang(1)
        call, _ = silent.accept()
        with call:
            other.terminate()
            assert other.wait(9) == -signal.SIGTERM


def test_the_end_of_one_replica_ends_the_others(gang):
    first, other = gang(0, "echo begun; exec sleep 20"), gang(1)
    # mpirun begins when all are there.
    assert first.stdout.readline() == b"begun\n"
    other.send_signal(signal.SIGKILL)
    # The command goes on and holds it open: the stand-in of mpirun does not end what it starts.
    assert b"replica 1 has ended" in first.stderr.readline()
    assert first.wait(30) != 0
