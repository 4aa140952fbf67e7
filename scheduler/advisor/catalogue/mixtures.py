"""Decoders with experts: DeepSeek, Mixtral and Qwen. The sizes are those of the named files."""

from collections.abc import Iterator

from scheduler.advisor.catalogue.decoders import CONFIG
from scheduler.advisor.catalogue.entries import CatalogueModel, Family
from scheduler.advisor.latent_attention import LatentAttention
from scheduler.advisor.mixture import Experts
from scheduler.advisor.transformer import Shape


def expert_decoders() -> Iterator[CatalogueModel]:
    yield from _deepseek()
    yield from _mixtral()
    yield from _qwen()


def _deepseek() -> Iterator[CatalogueModel]:
    first = Shape(
        layers=28,
        hidden=2048,
        heads=16,
        sequence=4096,
        vocabulary=102_400,
        feed_forward=10_944,
        gated=True,
        experts=Experts(64, 6, 1408, shared_width=2 * 1408, dense_layers=1),
    )
    yield _deepseek_model("deepseek-moe-16b", first, "deepseek-moe-16b-base", 4096)
    lite = Shape(
        layers=27,
        hidden=2048,
        heads=16,
        sequence=4096,
        vocabulary=102_400,
        feed_forward=10_944,
        gated=True,
        experts=Experts(64, 6, 1408, shared_width=2 * 1408, dense_layers=1),
        latent=LatentAttention(512, 0, 64, 128, 128),
    )
    yield _deepseek_model("deepseek-v2-lite", lite, "DeepSeek-V2-Lite", 32_768)
    second = Shape(
        layers=60,
        hidden=5120,
        heads=128,
        sequence=4096,
        vocabulary=102_400,
        feed_forward=12_288,
        gated=True,
        experts=Experts(160, 6, 1536, shared_width=2 * 1536, dense_layers=1),
        latent=LatentAttention(512, 1536, 64, 128, 128),
    )
    yield _deepseek_model("deepseek-v2", second, "DeepSeek-V2", 131_072)
    # Without the module that predicts a second token, which serving leaves out.
    third = Shape(
        layers=61,
        hidden=7168,
        heads=128,
        sequence=4096,
        vocabulary=129_280,
        feed_forward=18_432,
        gated=True,
        experts=Experts(256, 8, 2048, shared_width=2048, dense_layers=3),
        latent=LatentAttention(512, 1536, 64, 128, 128),
    )
    yield _deepseek_model("deepseek-v3", third, "DeepSeek-V3", 131_072)
    yield _deepseek_model("deepseek-r1", third, "DeepSeek-R1", 131_072)


def _deepseek_model(name: str, shape: Shape, file: str, context: int) -> CatalogueModel:
    source = CONFIG % f"deepseek-ai/{file}"
    return CatalogueModel(name, Family.DEEPSEEK, shape, source, context)


def _mixtral() -> Iterator[CatalogueModel]:
    for name, layers, hidden, heads, width, vocabulary, file, context in (
        ("mixtral-8x7b", 32, 4096, 32, 14_336, 32_000, "Mixtral-8x7B-v0.1", 32_768),
        ("mixtral-8x22b", 56, 6144, 48, 16_384, 32_000, "Mixtral-8x22B-v0.1", 65_536),
    ):
        shape = Shape(
            layers=layers,
            hidden=hidden,
            heads=heads,
            sequence=8192,
            vocabulary=vocabulary,
            kv_heads=8,
            gated=True,
            experts=Experts(8, 2, width),
        )
        yield CatalogueModel(name, Family.MISTRAL, shape, CONFIG % f"mistralai/{file}", context)


def _qwen() -> Iterator[CatalogueModel]:
    first = Shape(
        layers=24,
        hidden=2048,
        heads=16,
        sequence=4096,
        vocabulary=151_936,
        gated=True,
        has_query_biases=True,
        experts=Experts(60, 4, 1408, shared_width=5632, gates_shared=True),
    )
    source = CONFIG % "Qwen/Qwen1.5-MoE-A2.7B"
    yield CatalogueModel("qwen1.5-moe-a2.7b", Family.QWEN, first, source, 8192)
    for name, layers, hidden, heads, width, file in (
        ("qwen3-30b-a3b", 48, 2048, 32, 768, "Qwen3-30B-A3B"),
        ("qwen3-235b-a22b", 94, 4096, 64, 1536, "Qwen3-235B-A22B"),
    ):
        shape = Shape(
            layers=layers,
            hidden=hidden,
            heads=heads,
            sequence=4096,
            vocabulary=151_936,
            kv_heads=4,
            gated=True,
            head_size=128,
            has_head_norms=True,
            experts=Experts(128, 8, width),
        )
        yield CatalogueModel(name, Family.QWEN, shape, CONFIG % f"Qwen/{file}", 32_768)
