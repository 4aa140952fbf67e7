"""Whether a served model fits, and how fast it writes."""

from dataclasses import replace

import pytest

from scheduler.advisor.catalogue.models import MODELS
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.gpus import GPUS
from scheduler.advisor.inference import (
    Bottleneck,
    ServingLoad,
    read_bytes,
    serving_fit,
)
from scheduler.advisor.quantisation import Quantisation, weight_bytes

GIB = 2**30
H100, A100 = GPUS["H100-80GB"], GPUS["A100-80GB"]
LLAMA, MIXTRAL = MODELS["llama3-8b"].shape, MODELS["mixtral-8x7b"].shape


def test_parts_are_weights_caches_and_a_tenth():
    fit = serving_fit(LLAMA, "bf16", A100, concurrency=16, context=4096)
    assert fit.weights == LLAMA.parameters * 2
    assert fit.kv_cache == 16 * 4096 * 131_072
    assert fit.reserve == A100.memory_bytes / 10
    assert fit.fits
    room = 0.9 * A100.memory_bytes - fit.weights
    assert fit.max_concurrency == int(room // (4096 * 131_072))


def test_one_user_reads_all_weights_for_every_token():
    fit = serving_fit(LLAMA, "bf16", A100, context=512)
    assert fit.limits is Bottleneck.MEMORY_BANDWIDTH
    at_best = A100.memory_bandwidth / (LLAMA.parameters * 2)
    assert 0.7 * at_best < fit.decode_tokens_per_second < at_best


def test_many_users_share_the_weights_until_computing_is_the_limit():
    ten = serving_fit(LLAMA, "bf16", H100, concurrency=10, context=64)
    thousand = serving_fit(LLAMA, "bf16", H100, concurrency=1_000, context=64)
    assert (
        ten.decode_tokens_per_second
        > 8 * serving_fit(LLAMA, "bf16", H100, context=64).decode_tokens_per_second
    )
    assert thousand.limits is Bottleneck.COMPUTE


def test_experts_are_read_as_far_as_tokens_reach_them():
    one = read_bytes(MIXTRAL, Quantisation.BF16, 1)
    many = read_bytes(MIXTRAL, Quantisation.BF16, 1_000)
    assert one / 2 == pytest.approx(MIXTRAL.active_parameters, rel=0.01)
    assert many / 2 == pytest.approx(MIXTRAL.parameters, rel=0.01)


@pytest.mark.parametrize(
    ("word", "gigabytes"),
    # Files of Llama 3.1 8B: safetensors in bf16, llama.cpp's, and AWQ's in 4 bits.
    [("bf16", 16.06), ("q8_0", 8.54), ("q4_k_m", 4.92), ("awq", 5.73)],
)
def test_quantised_weights_are_as_large_as_their_files(word, gigabytes):
    assert weight_bytes(LLAMA, Quantisation(word)) / 1e9 == pytest.approx(gigabytes, rel=0.02)


def test_a_slice_has_its_share_of_computing_and_of_bandwidth():
    part = H100.slice(20 * GIB, compute_share=2 / 7)
    whole = serving_fit(LLAMA, "bf16", H100, context=1024)
    fit = serving_fit(LLAMA, "bf16", part, context=1024)
    assert fit.fits
    assert fit.decode_tokens_per_second == pytest.approx(whole.decode_tokens_per_second / 4)
    assert fit.prefill_seconds == pytest.approx(whole.prefill_seconds * 7 / 2)


def test_replicas_are_as_many_as_the_load_needs():
    fit = serving_fit(LLAMA, "bf16", A100, concurrency=32, context=2048)
    few = fit.replicas_for(ServingLoad(0.1, 1_000, 200))
    many = fit.replicas_for(ServingLoad(100.0, 1_000, 200))
    assert few == 1
    busy = 100 * (fit.prefill_seconds * 1_000 / 2048 + 200 / fit.decode_tokens_per_second)
    assert many - 1 < busy / 0.7 <= many


def test_what_does_not_fit_has_no_replicas():
    fit = serving_fit(MODELS["llama3-70b"].shape, "bf16", A100)
    assert not fit.fits
    assert fit.max_concurrency == 0
    with pytest.raises(AdvisorError, match="at most 0 do"):
        fit.replicas_for(ServingLoad(1.0, 100, 100))


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"quantisation": "int3"}, "quantisation"),
        ({"tp": 3}, "tp"),
        ({"tp": 0}, "tp"),
        ({"concurrency": -1}, "concurrency"),
        ({"context": 10**30}, "context"),
        ({"kv_bytes": "fp8"}, "kv_bytes"),
        ({"shape": MODELS["bert-base-cased"].shape}, "model"),
        ({"shape": MODELS["resnet-50"].shape}, "model"),
    ],
)
def test_nonsense_is_refused_with_the_name_of_the_field(options, field):
    with pytest.raises(AdvisorError) as refused:
        serving_fit(**{"shape": LLAMA, "quantisation": "bf16", "gpu": A100} | options)
    assert refused.value.field == field


@pytest.mark.parametrize(("field", "value"), [("memory_bytes", 0), ("peak_flops", -1.0)])
def test_a_gpu_without_memory_or_speed_is_none(field, value):
    with pytest.raises(AdvisorError) as refused:
        replace(A100, **{field: value})
    assert refused.value.field == field
