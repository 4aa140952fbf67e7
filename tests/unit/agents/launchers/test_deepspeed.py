"""DeepSpeed: no ssh, devices by number in containers alone, and batch sizes that fit the world."""

import base64
import json

import pytest

from agents.admission.local_checks import local_refusal
from agents.admission.policy import NodePolicy
from agents.contract.documents import Rendezvous, RuntimeKind
from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, LaunchRequest
from agents.launchers.nested import nested_launcher
from agents.launchers.registry import LAUNCHERS
from tests.unit.agents.documents import a_replica

DEEPSPEED = LAUNCHERS[LauncherName.DEEPSPEED]


def launch(*command, **fields):
    replica = a_replica(command=command, launcher="deepspeed", **fields)
    return Launch(replica, Rendezvous("10.0.0.1", 29_500))


def refusal(*command, replicas=2, processes=4, gpus=4):
    asked = LaunchRequest(command, replicas=replicas, processes=processes, gpus=gpus)
    return DEEPSPEED.request_refusal(asked)


def with_config(text, option="--deepspeed_config"):
    return ("python", "t.py", option, text)


def test_every_replica_is_told_its_rank_and_nobody_calls_the_others():
    words = DEEPSPEED.command(launch("python", "t.py", rank=1))
    assert "--no_ssh" in words
    assert words[words.index("--node_rank") + 1] == "1"
    hosts = DEEPSPEED.files(launch("python", "t.py", world=3, processes=4))["hostfile"]
    assert hosts.splitlines() == [f"replica-{rank} slots=4" for rank in range(3)]


@pytest.mark.parametrize(
    ("command", "end"),
    [
        (("python", "-m", "pkg.train", "-v"), ["--module", "pkg.train", "-v"]),
        (("--bind_cores_to_rank", "t.py"), ["--bind_cores_to_rank", "t.py"]),
        (("python", "-u", "t.py"), ["--no_python", "python", "-u", "t.py"]),
    ],
)
def test_options_of_deepspeed_stand_before_the_program(command, end):
    assert DEEPSPEED.command(launch(*command))[-len(end) :] == end
    assert not refusal(*command)


def test_options_that_place_it_are_refused_or_taken_away():
    assert refusal("--hostfile", "evil", "t.py").changes == {"command": ["t.py"]}
    call = ("deepspeed", "--num_gpus=2", "--hostfile", "h", "--no_local_rank", "t.py", "--x")
    nested = nested_launcher(LauncherName.DEEPSPEED, LaunchRequest(call, gpus=4))
    command = ["--no_local_rank", "python", "t.py", "--x"]
    assert nested.changes == {"launcher": "deepspeed", "command": command, "processes": 2}


def test_devices_by_number_need_a_container_and_a_gpu_each():
    on_processes = local_refusal(
        launch("python", "t.py", devices=(), processes=1).replica,
        NodePolicy(),
        RuntimeKind.PROCESS,
    )
    assert on_processes.code == "policy" and "torchrun" in on_processes.sentence
    assert refusal("t.py", gpus=0).field == "processes"
    assert not refusal("t.py", gpus=0, processes=1)


BATCH, MICRO, STEPS = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
)


@pytest.mark.parametrize(
    ("config", "fits"),
    [
        ({BATCH: 64, MICRO: 4, STEPS: 2}, True),
        ({BATCH: 32, MICRO: 4, STEPS: 2}, False),
        ({BATCH: 128, MICRO: 4, STEPS: 2}, False),
        ({BATCH: 96, MICRO: 4}, True),
        ({BATCH: 12}, False),
        ({BATCH: 12, MICRO: "auto"}, False),
        ({BATCH: "auto", MICRO: 3, STEPS: 5}, True),
        ({MICRO: 3}, True),
        ({}, True),
    ],
)
def test_batch_sizes_in_the_command_fit_the_eight_processes(config, fits):
    text = json.dumps(config)
    encoded = base64.urlsafe_b64encode(text.encode()).decode()
    for words in (with_config(text), with_config(encoded), with_config(text, "--deepspeed")):
        assert (refusal(*words) is None) is fits


@pytest.mark.parametrize("value", ["ds.json", "[1]", "{broken", "", "4" * 100_000, "[" * 16_000])
def test_a_configuration_in_a_file_is_left_to_deepspeed(value):
    assert not refusal(*with_config(value))
