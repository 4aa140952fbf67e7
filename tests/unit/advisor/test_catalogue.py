"""The catalogue's shapes have the parameters that were published of their models."""

import pytest

from scheduler.advisor.catalogue.models import MODELS, model_by_name
from scheduler.advisor.catalogue.residual import residual_network
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.kv_cache import shape_token_bytes
from scheduler.advisor.networks import ConvolutionalNetwork

# Of the published weights, and for experts what the publication calls active, in billions; the
# latter leave small things out in different ways, so they are held within 7 %.
PUBLISHED = {
    "llama-7b": (6.738, None),
    "llama2-13b": (13.016, None),
    "llama3.2-1b": (1.2358, None),
    "llama3.2-3b": (3.2127, None),
    "mistral-7b": (7.248, None),
    "qwen2.5-0.5b": (0.49403, None),
    "qwen2.5-1.5b": (1.5437, None),
    "qwen2.5-3b": (3.0859, None),
    "qwen3-0.6b": (0.59605, None),
    "qwen3-8b": (8.1907, None),
    "qwen3-32b": (32.762, None),
    "gpt2-xl": (1.5576, None),
    "deepseek-moe-16b": (16.376, 2.8),
    "deepseek-v2-lite": (15.706, 2.4),
    "deepseek-v2": (235.74, 21),
    "deepseek-v3": (671.03, 36.6),
    "mixtral-8x7b": (46.703, 12.9),
    "mixtral-8x22b": (140.62, 39),
    "qwen1.5-moe-a2.7b": (14.316, 2.5),
    "qwen3-30b-a3b": (30.532, 3.1),
    "qwen3-235b-a22b": (235.09, 22),
    "bert-base-uncased": (0.10948224, None),
    "bert-large-uncased": (0.335141888, None),
    "vit-b-16": (0.086567656, None),
    "vit-l-16": (0.304326632, None),
    "dit-xl-2": (0.675129632, None),
    "sd-1.5-unet": (0.859520964, None),
    "sdxl-unet": (2.567463684, None),
    "resnet-18": (0.011689512, None),
    "resnet-50": (0.025557032, None),
    "resnet-152": (0.060192808, None),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name):
    shape, (total, active) = MODELS[name].shape, PUBLISHED[name]
    assert shape.parameters / 1e9 == pytest.approx(total, rel=0.0003)
    if active:
        assert shape.active_parameters / 1e9 == pytest.approx(active, rel=0.07)


def test_every_model_says_where_its_sizes_are_from():
    assert all(model.source and model.shape.parameters > 1e7 for model in MODELS.values())
    assert {model.family.value for model in MODELS.values()} >= {"DeepSeek", "ViT", "ResNet"}


def test_a_residual_network_has_the_operations_and_results_that_are_published():
    network = residual_network(50)
    # timm's table: 4.09 billion multiply-adds, 11.1 million results of convolutions.
    assert network.forward_flops / 2e9 == pytest.approx(4.09, rel=0.01)
    assert network.kept_numbers / 2e6 == pytest.approx(11.1, rel=0.01)


def test_a_diffusion_transformer_has_the_operations_of_its_table():
    shape = MODELS["dit-xl-2"].shape
    # DiT, table 1: 118.6 billion multiply-adds.
    assert shape.model_flops(1) / 3 / 2e9 == pytest.approx(118.6, rel=0.01)


@pytest.mark.parametrize(
    ("name", "kib"),
    # Multi-head, grouped and latent attention.
    [("llama2-7b", 512), ("llama3-8b", 128), ("llama3-70b", 320), ("deepseek-v3", 68.625)],
)
def test_a_token_in_the_cache_is_as_large_as_its_kind_of_attention_makes_it(name, kib):
    assert shape_token_bytes(MODELS[name].shape) / 1024 == kib


def test_gpus_beyond_the_heads_of_keys_have_copies():
    shape = MODELS["llama3-8b"].shape
    assert shape_token_bytes(shape, 2, 16) == shape_token_bytes(shape, 2, 8)
    latent = MODELS["deepseek-v3"].shape
    assert shape_token_bytes(latent, 2, 8) == shape_token_bytes(latent, 2, 1)


def test_one_token_reaches_its_experts_and_many_reach_all():
    experts = MODELS["mixtral-8x7b"].shape.experts
    assert experts.distinct(1) == pytest.approx(2)
    assert experts.distinct(2) == pytest.approx(3.5)
    assert experts.distinct(1_000) == pytest.approx(8)


def test_networks_of_convolutions_are_no_transformers():
    assert isinstance(MODELS["resnet-50"].shape, ConvolutionalNetwork)


def test_a_model_that_there_is_not_is_named_with_all_that_there_are():
    with pytest.raises(AdvisorError, match="not 'gpt-9'") as refused:
        model_by_name("gpt-9")
    assert refused.value.field == "model"
    assert "llama3-8b" in str(refused.value)
