"""The time of a step divided by FSDP: of all weights, and of adapters."""

from dataclasses import replace

import pytest

from scheduler.advisor.catalogue.models import MODELS
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.fine_tuning import NF4_BYTES, TuningRegime
from scheduler.advisor.gpus import GPUS
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.step_time import step_parts
from scheduler.advisor.tuning_time import tuning_software, tuning_step

H100, LLAMA = GPUS["H100-80GB"], MODELS["llama3-8b"].shape


def seconds(regime: str, **values) -> float:
    return tuning_step(LLAMA, regime, H100, **values).parts.seconds


def test_a_training_of_all_weights_is_the_step_that_was_held_against_measurements():
    step = tuning_step(LLAMA, "adam", H100, batch=16, gpus=8)
    division = Parallelism(8, 1, 1, 16, micro_batch=2, zero_stage=3)
    assert step.parallelism == division
    assert step.parts == step_parts(LLAMA, division, H100)


def test_frozen_weights_leave_out_a_third_of_the_products_and_most_of_the_optimizer():
    full = tuning_step(LLAMA, "adam", H100, batch=4).parts
    lora = tuning_step(LLAMA, "lora", H100, batch=4).parts
    assert 2 / 3 < lora.compute / full.compute < 0.85
    share = tuning_software(LLAMA, TuningRegime.LORA).trained_share
    assert 0.001 < share < 0.01
    assert lora.optimizer == pytest.approx(full.optimizer * share)


def test_weights_of_4_bits_are_written_out_once_in_each_pass():
    lora, qlora = seconds("lora", batch=1), seconds("qlora", batch=1)
    each = (NF4_BYTES + 2) * LLAMA.layer_parameters / H100.memory_bandwidth / 0.88
    assert qlora - lora == pytest.approx(2 * each)
    again = seconds("qlora", batch=1, recompute="full") - seconds("lora", batch=1, recompute="full")
    assert again == pytest.approx(3 * each)


@pytest.mark.parametrize("regime", ["adam", "lora", "qlora"])
def test_faster_hardware_is_never_slower(regime):
    step = tuning_step(LLAMA, regime, H100, batch=16, gpus=8).parts.seconds
    for name in ("peak_flops", "memory_bandwidth", "bus_bandwidth", "network_bandwidth"):
        faster = replace(H100, **{name: 2 * getattr(H100, name)})
        assert tuning_step(LLAMA, regime, faster, batch=16, gpus=8).parts.seconds <= step


@pytest.mark.parametrize("regime", ["adam", "lora", "qlora"])
def test_more_gpus_shorten_a_step(regime):
    times = [seconds(regime, batch=64, gpus=gpus) for gpus in (2, 4, 8, 16)]
    assert times == sorted(times, reverse=True)


def test_what_is_no_transformer_is_refused():
    with pytest.raises(AdvisorError, match="transformers"):
        tuning_step(MODELS["resnet-50"].shape, "adam", H100)
