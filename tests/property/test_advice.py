"""More GPUs, memory or bandwidth never make an answer worse, and nonsense is a field error."""

from dataclasses import replace
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.advisor.catalogue.models import MODELS
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.fine_tuning import Offload, TuningRegime, training_fit
from scheduler.advisor.gpus import GPUS
from scheduler.advisor.inference import serving_fit
from scheduler.advisor.model_config import ARCHITECTURES, shape_from_config
from scheduler.advisor.models import SHAPES
from scheduler.advisor.quantisation import Quantisation
from scheduler.advisor.search import search
from scheduler.advisor.transformer import Recompute, Shape
from tests.support.examples import examples

GIB = 2**30
FACTORS = ("memory_bytes", "memory_bandwidth", "bus_bandwidth", "network_bandwidth", "peak_flops")
# Two of their layers are much of them, and FSDP gathers two.
SHALLOW = [Shape(layers, 4096, 32, 128) for layers in (1, 2, 3, 4)] * 8
WRITERS = [name for name, shape in SHAPES.items() if shape.is_causal]
gpus = st.sampled_from(sorted(GPUS)).map(GPUS.__getitem__)
regimes, recomputes = st.sampled_from(TuningRegime), st.sampled_from(Recompute)
ODD = [-1, 0, 1, 10**30, True, None, 1.5, float("nan"), float("inf"), "8", [8]]
whole_numbers = st.one_of(st.sampled_from(ODD), st.integers(-(10**31), 10**31))


def better(gpu, name, factor):
    value = getattr(gpu, name)
    return replace(gpu, **{name: int(value * factor) if name == "memory_bytes" else value * factor})


@examples(200)
@given(
    shape=st.sampled_from([*SHAPES.values(), *SHALLOW]),
    regime=regimes,
    recompute=recomputes,
    offload=st.sampled_from(Offload),
    batch=st.integers(1, 64),
    few=st.sampled_from([1, 1, 2, 3, 8, 60]),
    more=st.integers(0, 8),
    memory=st.integers(1, 180),
)
def test_training_needs_no_more_of_each_gpu_with_more_of_them(
    shape, regime, recompute, offload, batch, few, more, memory
):
    options = {"batch": batch, "recompute": recompute, "offload": offload}
    one = training_fit(shape, regime, memory * GIB, gpus=few, **options)
    many = training_fit(shape, regime, memory * GIB, gpus=few + more, **options)
    assert many.total <= one.total * (1 + 1e-12)
    larger = training_fit(shape, regime, (memory + 8) * GIB, gpus=few, **options)
    assert larger.fits or not one.fits


@examples(60)
@given(
    name=st.sampled_from(WRITERS),
    word=st.sampled_from(Quantisation),
    gpu=gpus,
    factor=st.sampled_from(FACTORS),
    by=st.floats(1, 4),
    concurrency=st.integers(1, 512),
    context=st.integers(1, 32_768),
)
def test_a_better_gpu_never_serves_worse(name, word, gpu, factor, by, concurrency, context):
    sizes = {"concurrency": concurrency, "context": context}
    plain = serving_fit(SHAPES[name], word, gpu, **sizes)
    finer = serving_fit(SHAPES[name], word, better(gpu, factor, by), **sizes)
    assert finer.fits or not plain.fits
    assert finer.max_concurrency >= plain.max_concurrency
    assert finer.prefill_seconds <= plain.prefill_seconds
    assert finer.decode_tokens_per_second >= plain.decode_tokens_per_second


@examples(30)
@given(
    name=st.sampled_from(["gpt2", "llama3-8b", "qwen3-0.6b", "mixtral-8x7b", "deepseek-v2-lite"]),
    gpu=gpus,
    factor=st.sampled_from(FACTORS),
    by=st.floats(1, 4),
    few=st.integers(1, 64),
    more=st.integers(1, 16),
    batch=st.sampled_from([64, 120, 512]),
)
def test_more_gpus_or_better_ones_never_train_slower(name, gpu, factor, by, few, more, batch):
    started = process_time()
    plain = search(SHAPES[name], gpu, few, batch)
    spent = process_time() - started
    many = search(SHAPES[name], gpu, few + more, batch)
    finer = search(SHAPES[name], better(gpu, factor, by), few, batch)
    if plain:
        best = plain[0].parts.seconds * (1 + 1e-12)
        assert many[0].parts.seconds <= best
        assert finer[0].parts.seconds <= best
    assert spent < 1, "an answer takes less than a second"


@examples(60)
@given(
    where=st.sampled_from(["batch", "sequence", "gpus", "rank", "gpu_memory_bytes"]),
    value=whole_numbers,
    regime=regimes,
)
def test_a_wrong_size_of_a_training_is_an_error_of_its_field(where, value, regime):
    inputs = {"gpu_memory_bytes": 80 * GIB, where: value}
    try:
        fit = training_fit(SHAPES["llama3-8b"], regime, **inputs)
    except AdvisorError as error:
        assert error.field == where
    else:
        assert 0 < fit.total < float("inf")


@examples(60)
@given(where=st.sampled_from(["tp", "concurrency", "context", "kv_bytes"]), value=whole_numbers)
def test_a_wrong_size_of_a_served_model_is_an_error_of_its_field(where, value):
    try:
        fit = serving_fit(SHAPES["llama3-8b"], "bf16", GPUS["H100-80GB"], **{where: value})
    except AdvisorError as error:
        assert error.field == where
    else:
        assert 0 < fit.decode_tokens_per_second < float("inf")


@examples(40)
@given(gpu_count=whole_numbers, batch=whole_numbers)
def test_a_wrong_size_of_a_search_is_an_error_of_its_field(gpu_count, batch):
    try:
        search(SHAPES["gpt2"], GPUS["A100-80GB"], gpu_count, batch)
    except AdvisorError as error:
        assert error.field in ("gpus", "global_batch")


CONFIG_KEYS = (
    *("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads"),
    *("intermediate_size", "vocab_size", "max_position_embeddings", "head_dim", "num_experts"),
    *("num_local_experts", "num_experts_per_tok", "n_routed_experts", "n_shared_experts"),
    *("moe_intermediate_size", "first_k_dense_replace", "shared_expert_intermediate_size"),
    *("kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"),
    *("n_embd", "n_layer", "n_head", "n_positions", "n_inner", "patch_size", "image_size"),
    *("num_channels", "id2label", "mlp_only_layers", "moe_layer_freq"),
)
values = st.sampled_from([*ODD, {}, "x", 2, 64, 10**7])


@examples(150)
@given(
    architecture=st.sampled_from([*ARCHITECTURES, "MambaForCausalLM", None, 3]),
    keys=st.dictionaries(st.sampled_from(CONFIG_KEYS), values, max_size=6),
)
def test_any_configuration_is_a_shape_or_an_error_of_a_field(architecture, keys):
    sizes = dict.fromkeys(CONFIG_KEYS[:-3], 64) | {"architectures": [architecture]}
    try:
        shape = shape_from_config(sizes | keys)
    except AdvisorError as error:
        assert error.field
    else:
        assert 0 < shape.parameters < 1e30


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_catalogue_has_an_answer(name):
    shape = MODELS[name].shape
    assert training_fit(shape, "adam", 80 * GIB).total > shape.parameters * 18
    if name in WRITERS:
        assert serving_fit(shape, "bf16", GPUS["H100-80GB"]).total > shape.parameters * 2
