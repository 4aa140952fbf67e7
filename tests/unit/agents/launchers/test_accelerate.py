"""Accelerate: its options before the program, and those that Tessera writes."""

import pytest

from agents.contract.documents import Rendezvous
from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, LaunchRequest
from agents.launchers.registry import LAUNCHERS
from tests.unit.agents.documents import a_replica

ACCELERATE = LAUNCHERS[LauncherName.ACCELERATE]


def words(*command, **fields):
    replica = a_replica(command=command, launcher="accelerate", **fields)
    return ACCELERATE.command(Launch(replica, Rendezvous("10.0.0.1", 29_500)))


def refusal(*command, replicas=2, processes=2):
    asked = LaunchRequest(command, replicas=replicas, processes=processes)
    return ACCELERATE.request_refusal(asked)


@pytest.mark.parametrize(
    ("command", "end"),
    [
        (("python", "t.py"), ["t.py"]),
        (("t.py", "-v"), ["t.py", "-v"]),
        (("python", "-u", "t.py"), ["--no_python", "python", "-u", "t.py"]),
        (("-m", "pkg.train"), ["-m", "pkg.train"]),
        (("./train.sh",), ["--no_python", "./train.sh"]),
        (("--use_fsdp", "--fsdp_version", "2", "python", "t.py"),
         ["--use_fsdp", "--fsdp_version", "2", "t.py"]),
    ],
)  # fmt: skip
def test_options_of_accelerate_stand_before_the_program(command, end):
    assert words(*command)[-len(end) :] == end
    assert not refusal(*command)


def test_the_number_of_processes_is_that_of_the_world():
    said = words("python", "t.py", world=3, processes=4, rank=2)
    assert said[said.index("--num_processes") + 1] == "12"
    assert said[said.index("--num_machines") + 1] == "3"
    assert said[said.index("--machine_rank") + 1] == "2"
    assert "--multi_gpu" in said
    assert "--multi_gpu" not in words("python", "t.py", world=1, processes=1)


def test_the_kind_of_training_is_the_users_if_it_says_one():
    for chosen in (("--use_fsdp",), ("--use_megatron_lm",), ("--config_file", "c.yaml")):
        assert "--multi_gpu" not in words(*chosen, "t.py")
    assert "standard" in words("--use_deepspeed", "--zero_stage", "3", "t.py")
    assert words("--mixed_precision", "bf16", "t.py").count("--mixed_precision") == 1


@pytest.mark.parametrize(
    ("command", "mended"),
    [
        (("--num_processes", "8", "--use_fsdp", "t.py"), ["--use_fsdp", "t.py"]),
        (("--main-process-ip=evil", "t.py"), ["t.py"]),
        (("--cpu", "t.py"), ["t.py"]),
    ],
)
def test_options_that_place_it_are_refused_with_the_command_without_them(command, mended):
    refused = refusal(*command)
    assert refused.field == "command" and refused.changes == {"command": mended}
    assert not refusal(*mended)


def test_options_without_a_program_or_two_kinds_of_training_are_refused():
    assert "the program" in refusal("--mixed_precision", "bf16").why.text
    assert "choose one of" in refusal("--use_fsdp", "--use_deepspeed", "t.py").why.text
    assert not refusal("--cpu", "t.py", replicas=1, processes=1)
