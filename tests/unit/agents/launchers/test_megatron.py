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
EP, ETP = "--expert-model-parallel-size", "--expert-tensor-parallel-size"
# Four stages of several virtual ones; 16 processes leave four copies of the model.
INTERLEAVED = (PP, 4, "--micro-batch-size", 1, "--num-layers-per-virtual-pipeline-stage", 1)
LAYERS, STAGES = ("embedding", "loss"), "--num-virtual-stages-per-pipeline-rank"
GROUP = "--microbatch-group-size-per-virtual-pipeline-stage"


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
        # An embedding and a loss that count as layers: 30 + 2 on four stages.
        (PP, 4, "--num-layers", 30, *(f"--account-for-{one}-in-pipeline-split" for one in LAYERS)),
        (PP, 4, "--num-layers", 30, "--hybrid-layer-pattern", "M|M|M|M"),
        (TP, 4, EP, 8, ETP, 1, "--num-experts", 64),
        # Ten micro-batches: six, then four.
        (*INTERLEAVED, "--global-batch-size", 40, GROUP, 6),
        # One virtual stage each is no interleaved pipeline.
        (PP, 4, "--micro-batch-size", 1, "--global-batch-size", 24, f"{STAGES}=1"),
        (*INTERLEAVED, "--num-layers", 4, "--global-batch-size", 24),
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
        ((*INTERLEAVED, "--global-batch-size", 24), "by the 4 stages of an interleaved"),
        ((*INTERLEAVED, "--global-batch-size", 40, GROUP, 8), "in groups of 8"),
        ((*INTERLEAVED, "--global-batch-size", 40, GROUP, 3), "in groups of 3"),
        ((*INTERLEAVED, "--global-batch-size", 16, GROUP, 8), "in groups of 8"),
        ((PP, 4, "--num-layers", 32, f"--account-for-{LAYERS[0]}-in-pipeline-split"), "32 + 1"),
        ((TP, 4, EP, 8), "expert tensor × expert × pipeline parallel size, 4 × 8 × 1"),
        ((EP, 8, "--num-experts", 60), "--num-experts 60"),
    ],
)
def test_sizes_that_do_not_divide_are_refused_with_their_numbers(options, word):
    refused = refusal(*options)
    assert refused.field == "command" and word in refused.why.text


def test_kernels_stay_in_order_unless_communication_must_overtake_computation():
    def connections(*command):
        replica = a_replica(command=command, launcher="megatron")
        return MEGATRON.environment(Launch(replica, Rendezvous("h", 1))).get(
            "CUDA_DEVICE_MAX_CONNECTIONS"
        )

    assert connections("python", "t.py") == "1"
    assert connections("python", "t.py", "--use-megatron-fsdp") is None
    ucc = ("--pipeline-model-parallel-comm-backend", "ucc")
    assert connections("python", "t.py", *ucc) is None
    assert connections("python", "t.py", ucc[0], "nccl") == "1"
    assert connections("python", "t.py", "--overlap-moe-expert-parallel-comm") == "32"
