"""States and activations against published tables."""

import pytest

from scheduler.advisor.activation_memory import layer_bytes, stage_bytes
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.state_memory import (
    BF16_WITH_FP32_GRADIENTS,
    FP16_WITH_FP16_GRADIENTS,
    FP32_ADAM,
    MIXED_ADAM,
    DeepSpeedMemory,
)
from scheduler.advisor.transformer import Recompute, Shape
from tests.unit.advisor.published import MEASURED

# ZeRO, figure 1 and table 1: GB of 7.5 billion parameters at stages 1, 2 and 3.
ZERO = {
    4: (52.5, 41.3, 30),
    16: (35.6, 21.6, 7.5),
    64: (31.4, 16.6, 1.88),
    256: (30.4, 15.4, 0.47),
    1024: (30.1, 15.1, 0.12),
}
# Korthikanti et al., figure 1: GiB of activations without and with recompute, GiB of states.
ACTIVATIONS = {
    (48, 6144, 64, 4, 1, 1, 4): (59.25, 9.5625, 45.5625),
    (96, 12_288, 96, 1, 8, 3, 64): (66.84, 12.3515625, 45.5625),
    (105, 20_480, 128, 1, 35, 3, 280): (114.0234375, 23.08, 31.64),
    (128, 25_600, 160, 1, 64, 1, 512): (131.25, 26.5625, 32.958984375),
}


@pytest.mark.parametrize("size", ZERO)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_zero_divides_what_its_stage_divides(size, stage):
    gigabytes = 7.5 * MIXED_ADAM.sharded(stage, size)
    assert gigabytes == pytest.approx(ZERO[size][stage - 1], rel=0.03)


@pytest.mark.parametrize(
    ("regime", "whole", "distributed"),
    [
        (FP16_WITH_FP16_GRADIENTS, 20, 4 + 16 / 64),
        (BF16_WITH_FP32_GRADIENTS, 18, 6 + 12 / 64),
        (FP32_ADAM, 16, 8 + 8 / 64),
    ],
)
def test_megatrons_regimes(regime, whole, distributed):
    assert regime.total == whole
    assert regime.sharded(1, 64) == distributed


@pytest.mark.parametrize("row", ACTIVATIONS)
def test_activations_and_states_of_korthikantis_models(row):
    layers, hidden, heads, micro_batch, stages, virtual, batch = row
    shape = Shape(layers, hidden, heads, 2048, 51_200)
    gpus = 8 * stages
    none = Parallelism(gpus, 8, stages, batch, micro_batch, virtual)
    part = Parallelism(
        gpus, 8, stages, batch, micro_batch, virtual, Recompute.SELECTIVE, sequence_parallel=True
    )
    states = shape.layer_parameters * BF16_WITH_FP32_GRADIENTS.total / gpus
    found = (stage_bytes(shape, none), stage_bytes(shape, part), states)
    assert [size / 2**30 for size in found] == pytest.approx(ACTIVATIONS[row], rel=0.002)


@pytest.mark.parametrize(
    ("changes", "gpu", "host"),
    [
        ({"stage": 2, "optimizer_on_host": True}, 5.31, 127.45),
        ({"stage": 2}, 11.28, 127.45 / 1),
        ({"parameters_on_host": True, "optimizer_on_host": True}, 0.12, 71.69),
        ({"parameters_on_host": True, "optimizer_on_host": True, "zero_init": False}, 0.12, 127.45),
        ({"optimizer_on_host": True}, 0.78, 63.72),
        ({"optimizer_on_host": True, "zero_init": False}, 0.78, 127.45),
        ({}, 6.09, 1.43),
        ({"zero_init": False}, 6.09, 127.45),
    ],
)
def test_deepspeeds_estimates_of_t5_3b(changes, gpu, host):
    memory = DeepSpeedMemory(
        **{"parameters": 2851e6, "stage": 3, "gpus_per_node": 8, "largest_layer_parameters": 32e6}
        | changes
    )
    found = (memory.gpu_bytes / 2**30, memory.host_bytes / 2**30)
    assert found == pytest.approx((gpu, host), rel=0.01)


@pytest.mark.parametrize("name", MEASURED)
def test_activations_of_a_layer_are_what_pytorch_held_on_an_h100(name):
    shape, micro_batch, _, gibibytes = MEASURED[name]
    parallelism = Parallelism(1, 1, 1, micro_batch, micro_batch)
    found = layer_bytes(shape, parallelism, Recompute.NONE, flash_attention=True)
    assert found / 2**30 == pytest.approx(gibibytes, rel=0.005)


def test_a_stage_that_there_is_not_is_refused():
    with pytest.raises(AdvisorError, match="0, 1, 2 or 3"):
        MIXED_ADAM.sharded(4, 8)
