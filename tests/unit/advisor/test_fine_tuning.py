"""Whether a training fits, by part."""

import pytest

from scheduler.advisor.catalogue.models import MODELS
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.fine_tuning import (
    REGIME_BYTES,
    Offload,
    TuningRegime,
    adapter_parameters,
    training_fit,
)
from scheduler.advisor.transformer import Recompute

GIB = 2**30
LLAMA = MODELS["llama2-7b"].shape
A100 = 80 * GIB


def fit(regime, memory=A100, shape=LLAMA, **options):
    return training_fit(shape, regime, memory, **options)


@pytest.mark.parametrize(
    ("regime", "each"),
    [("adam", 18), ("adam-bf16-gradients", 16), ("adam-8bit", 12), ("sgd-momentum", 14),
     ("sgd", 10)],
)  # fmt: skip
def test_states_are_the_bytes_of_their_regime(regime, each):
    parts = fit(regime).parts
    states = parts.weights + parts.gradients + parts.optimizer
    assert states == LLAMA.parameters * each
    assert REGIME_BYTES[TuningRegime(regime)].total == each


@pytest.mark.parametrize(
    ("name", "trained"),
    # What PEFT prints for rank 16 on all matrices of all layers.
    [("llama2-7b", 39_976_960), ("llama3-8b", 41_943_040), ("llama3-70b", 207_093_760)],
)
def test_adapters_have_the_parameters_that_peft_prints(name, trained):
    assert adapter_parameters(MODELS[name].shape, 16) == trained


def test_seven_billion_parameters_fit_with_adapters_and_not_in_full():
    options = {"batch": 8, "sequence": 512, "recompute": "full"}
    assert not fit("adam", **options).fits
    assert fit("lora", 24 * GIB, **options).fits
    assert fit("qlora", 18 * GIB, **options).fits


def test_a_quantised_base_is_a_quarter_as_large():
    # QLoRA, section 3: 4.127 bits; the tables of tokens stay in 16 bits.
    linear = LLAMA.layer_parameters
    expected = linear * 4.127 / 8 + (LLAMA.parameters - linear) * 2
    expected += adapter_parameters(LLAMA, 16) * 4
    assert fit("qlora").parts.weights == pytest.approx(expected)


def test_recompute_and_offload_move_what_they_say():
    plain, full = fit("adam", batch=4), fit("adam", batch=4, recompute=Recompute.FULL)
    assert full.parts.activations < plain.parts.activations / 4
    offloaded = fit("adam", offload=Offload.OPTIMIZER)
    assert offloaded.parts.optimizer == 0
    assert offloaded.host_bytes == LLAMA.parameters * 12
    everything = fit("adam", offload=Offload.ALL)
    assert everything.host_bytes == LLAMA.parameters * 18
    assert everything.parts.weights < offloaded.parts.weights / 10


def test_gpus_share_the_states_and_the_batch():
    one, eight = fit("adam", batch=8), fit("adam", batch=8, gpus=8)
    assert eight.parts.optimizer == one.parts.optimizer / 8
    assert eight.parts.activations == pytest.approx(one.parts.activations / 8)
    layers = 2 / LLAMA.layers * LLAMA.layer_parameters * 2
    assert eight.parts.weights == pytest.approx(one.parts.weights / 8 + layers)


def test_networks_of_convolutions_train_in_full_only():
    network = MODELS["resnet-50"].shape
    assert fit("adam", 10 * GIB, network, batch=64).fits
    with pytest.raises(AdvisorError) as refused:
        fit("lora", shape=network)
    assert refused.value.field == "regime"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"regime": "adamw9"}, "regime"),
        ({"batch": 0}, "batch"),
        ({"batch": 10**30}, "batch"),
        ({"batch": 1.5}, "batch"),
        ({"sequence": -1}, "sequence"),
        ({"gpus": "8"}, "gpus"),
        ({"memory": 0}, "gpu_memory_bytes"),
        ({"memory": float("nan")}, "gpu_memory_bytes"),
        ({"recompute": "some"}, "recompute"),
        ({"offload": 3}, "offload"),
        ({"rank": True}, "rank"),
    ],
)
def test_nonsense_is_refused_with_the_name_of_the_field(options, field):
    with pytest.raises(AdvisorError) as refused:
        fit(**{"regime": "lora"} | options)
    assert refused.value.field == field
