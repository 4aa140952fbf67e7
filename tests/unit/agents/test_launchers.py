"""The launchers' room: what each one starts, and what happens to one under another."""

import pytest

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import LaunchRequest, launcher_call
from agents.launchers.nested import nested_launcher
from agents.launchers.registry import LAUNCHERS, SEVERAL, processes_refusal
from scheduler.core.request import InvalidRequest, RequestLimits, parse_request

TORCHRUN = LauncherName.TORCHRUN


def mended(*command, replicas=1, gpus=4, launcher=TORCHRUN):
    asked = LaunchRequest(command, replicas=replicas, gpus=gpus)
    nested = nested_launcher(launcher, asked)
    return nested and dict(nested.changes)


def as_torchrun(*command, **more):
    return {"launcher": "torchrun", "command": [*command]} | more


def test_none_starts_one_process_and_torchrun_one_for_each_whole_gpu():
    assert [LAUNCHERS[LauncherName.NONE].default_processes(gpus) for gpus in (0, 4)] == [1, 1]
    assert [LAUNCHERS[TORCHRUN].default_processes(gpus) for gpus in (0, 4)] == [1, 4]
    assert LAUNCHERS[SEVERAL].starts_several


def test_a_launcher_of_one_process_names_those_for_several():
    assert not processes_refusal(LauncherName.NONE, 1)
    assert not processes_refusal(TORCHRUN, 64)
    assert "torchrun" in processes_refusal(LauncherName.NONE, 2).text


@pytest.mark.parametrize(
    ("command", "program", "interpreter"),
    [
        (("torchrun", "t.py"), "torchrun", ("python",)),
        (("/opt/bin/torchrun", "t.py"), "torchrun", ("/opt/bin/python",)),
        (("python3", "-m", "a.b", "c"), "a.b", ("python3",)),
        (("python", "-u", "-X", "dev", "-m", "a.b"), "a.b", ("python", "-u", "-X", "dev")),
        (("python", "-u", "-ma.b", "-m", "c"), "a.b", ("python", "-u")),
    ],
)
def test_a_command_is_a_call_of_its_first_program(command, program, interpreter):
    call = launcher_call(command)
    assert call is not None
    assert (call.program, call.interpreter) == (program, interpreter)


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("python",),
        ("python", "t.py"),
        ("python", "-m"),
        ("python", "-c", "-m torch"),
        ("python", "-cm"),
    ],
)
def test_a_script_of_python_is_no_call(command):
    assert launcher_call(command) is None


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py", "torchrun"),
        ("sh", "-c", "torchrun train.py"),
        ("accelerate", "config"),
        ("python", "-m", "torch.utils.bottleneck", "t.py"),
        ("torchrunner", "t.py"),
    ],
)
def test_what_only_mentions_a_launcher_is_not_nested(command):
    assert mended(*command) is None


@pytest.mark.parametrize("program", ["torchrun", "mpirun", "accelerate"])
def test_under_launcher_none_a_launcher_runs_as_written(program):
    command = (program, "launch", "t.py")
    assert mended(*command, launcher=LauncherName.NONE) is None
    assert mended(*command) is not None


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        (("torchrun", "t.py", "--lr", "1"), as_torchrun("python", "t.py", "--lr", "1")),
        (
            ("torchrun", "--nproc-per-node=2", "--nnodes", "2", "t.py", "--nnodes", "9"),
            as_torchrun("python", "t.py", "--nnodes", "9", processes=2),
        ),
        (
            ("torchrun", "--standalone", "--nproc_per_node", "gpu", "-m", "pkg.train", "x"),
            as_torchrun("python", "-m", "pkg.train", "x"),
        ),
        (("torchrun", "--no-python", "./train.sh"), as_torchrun("./train.sh")),
        (
            ("python3", "-u", "-m", "torch.distributed.run", "--max-restarts=0", "t.py"),
            as_torchrun("python3", "-u", "t.py"),
        ),
        (
            ("python", "-m", "torch.distributed.launch", "--use_env", "t.py"),
            as_torchrun("python", "t.py"),
        ),
        # More processes than GPUs are left out: the default of the launcher follows the GPUs.
        (("torchrun", "--nproc-per-node", "8", "t.py"), as_torchrun("python", "t.py")),
    ],
)
def test_torchrun_under_torchrun_is_mended_to_the_program_alone(command, changes):
    assert mended(*command, replicas=3) == changes


def as_accelerate(*command, **more):
    return {"launcher": "accelerate", "command": [*command]} | more


@pytest.mark.parametrize("launcher", ["accelerate", "torchrun"])
@pytest.mark.parametrize(
    ("command", "changes"),
    [
        (
            ("accelerate", "launch", "--mixed_precision", "bf16", "t.py", "-x"),
            as_accelerate("--mixed_precision", "bf16", "python", "t.py", "-x"),
        ),
        (
            ("accelerate-launch", "--num-processes=4", "--num_machines", "2", "--use_fsdp", "t.py"),
            as_accelerate("--use_fsdp", "python", "t.py", processes=2),
        ),
        (
            ("/env/bin/accelerate", "launch", "--multi_gpu", "--cpu", "-m", "pkg.train"),
            as_accelerate("/env/bin/python", "-m", "pkg.train"),
        ),
        # Three on two machines: how many it meant in each is not known.
        (
            ("accelerate", "launch", "--num_processes", "3", "--num_machines", "2", "t.py"),
            as_accelerate("python", "t.py"),
        ),
    ],
)
def test_accelerate_keeps_its_own_options_without_those_that_place_it(launcher, command, changes):
    assert mended(*command, replicas=2, launcher=LauncherName(launcher)) == changes


@pytest.mark.parametrize(
    "command",
    [
        ("srun", "-n", "4", "./a.out"),
        ("/usr/bin/mpiexec", "--mca", "btl", "tcp", "./a.out"),
        # Its own restarts and logs would be lost.
        ("torchrun", "--max-restarts", "3", "t.py"),
        ("torchrun", "--log-dir", "x", "t.py"),
        ("torchrun",),
        ("torchrun", "--no-python", "torchrun", "t.py"),
    ],
)
def test_what_cannot_be_carried_over_is_left_to_itself_on_one_replica_alone(command):
    assert mended(*command) == {"launcher": "none", "processes": 1}
    # In a gang, each replica would start a world of its own: no change keeps the meaning.
    assert mended(*command, replicas=2) == {}


@pytest.mark.parametrize("gpus", [0, 1, 4])
@pytest.mark.parametrize(
    "command", [["torchrun", "--nproc-per-node=4", "t.py"], ["mpirun", "-np", "4", "a.out"]]
)
def test_a_mended_request_is_accepted(command, gpus):
    device = {"gpus": gpus} if gpus else {"mig": "1g.10gb"}
    base = {"project": "p", "name": "n", "image": "i", "command": command, "device": device}
    changes = mended(*command, gpus=gpus)
    request = parse_request(base | {"launcher": "torchrun"} | changes, RequestLimits())
    assert request.launcher == changes["launcher"]
    with pytest.raises(InvalidRequest):
        parse_request(base | {"launcher": "none", "processes": 2}, RequestLimits())
