"""Megatron-LM: its sizes divide the world, the model and the batch before the job is queued."""

import pytest

from agents.contract.documents import Rendezvous
from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, LaunchRequest
from agents.launchers.registry import LAUNCHERS
from tests.unit.agents.documents import a_replica

MEGATRON = LAUNCHERS[LauncherName.MEGATRON]
TP, PP, CP = (f"--{kind}-model-parallel-size" for kind in ("tensor", "pipeline", "context"))
CP = "--context-parallel-size"


def refusal(*options, replicas=2, processes=8):
    words = ("python", "pretrain_gpt.py", *map(str, options))
    asked = LaunchRequest(words, replicas=replicas, processes=processes, gpus=processes)
    return MEGATRON.request_refusal(asked)


@pytest.mark.parametrize(
    "options",
    [
        (),
        (TP, 8, PP, 2),
        (TP, 2, PP, 2, CP, 2, "--num-layers", 32, "--num-attention-heads", 32),
        (TP, 4, PP, 2, "--micro-batch-size", 2, "--global-batch-size", 64),
        # Three layers on two stages, told how.
        (PP, 2, "--num-layers", 3, "--decoder-first-pipeline-num-layers", 1),
        (TP, 1, "--micro-batch-size", 2, "--global-batch-size", 33, "--rampup-batch-size", 1, 1, 1),
        (TP, "many"),
    ],
)
def test_sizes_that_divide_are_started(options):
    assert refusal(*options) is None


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ((TP, 3), "cannot be divided by tensor"),
        ((TP, 4, PP, 3), "4 × 3 × 1"),
        ((TP, 16), "on one node"),
        ((TP, 8, "--num-attention-heads", 12), "--num-attention-heads 12"),
        ((PP, 4, "--num-layers", 30), "--num-layers 30"),
        ((TP, 4, "--micro-batch-size", 3, "--global-batch-size", 32), "4 data parallel"),
        (
            (
                *(PP, 4, "--micro-batch-size", 1, "--global-batch-size", 24),
                *("--num-layers-per-virtual-pipeline-stage", 1),
            ),
            "interleaved",
        ),
    ],
)
def test_sizes_that_do_not_divide_are_refused_with_their_numbers(options, word):
    refused = refusal(*options)
    assert refused.field == "command" and word in refused.why.text


def test_kernels_stay_in_order_unless_fsdp_needs_many_connections():
    def connections(*command):
        replica = a_replica(command=command, launcher="megatron")
        return MEGATRON.environment(Launch(replica, Rendezvous("h", 1))).get(
            "CUDA_DEVICE_MAX_CONNECTIONS"
        )

    assert connections("python", "t.py") == "1"
    assert connections("python", "t.py", "--use-megatron-fsdp") is None
