"""Dense decoders: LLaMA, Mistral, Qwen and GPT. The sizes are those of the named files."""

from collections.abc import Iterator
from dataclasses import replace

from scheduler.advisor.catalogue.entries import CatalogueModel, Family
from scheduler.advisor.transformer import Shape

CONFIG = "config.json of %s on Hugging Face"


def dense_decoders() -> Iterator[CatalogueModel]:
    yield from _llama()
    yield from _mistral()
    yield from _qwen()
    yield from _gpt()


def _gated(
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    feed_forward: int,
    vocabulary: int,
    sequence: int,
) -> Shape:
    return Shape(layers, hidden, heads, sequence, vocabulary, kv_heads, feed_forward, gated=True)


def _llama() -> Iterator[CatalogueModel]:
    # LLaMA, table 2 (arXiv 2302.13971); widths of the inner part from the published files.
    first = {
        "llama-7b": (32, 4096, 32, 11_008),
        "llama-13b": (40, 5120, 40, 13_824),
        "llama-33b": (60, 6656, 52, 17_920),
        "llama-65b": (80, 8192, 64, 22_016),
    }
    for name, (layers, hidden, heads, inner) in first.items():
        shape = _gated(layers, hidden, heads, heads, inner, 32_000, 2048)
        yield CatalogueModel(name, Family.LLAMA, shape, "LLaMA, table 2 (arXiv 2302.13971)", 2048)
    later = {
        "llama2-7b": ((32, 4096, 32, 32, 11_008, 32_000, 4096), "Llama-2-7b", 4096),
        "llama2-13b": ((40, 5120, 40, 40, 13_824, 32_000, 4096), "Llama-2-13b", 4096),
        "llama2-70b": ((80, 8192, 64, 8, 28_672, 32_000, 4096), "Llama-2-70b", 4096),
        "llama3-8b": ((32, 4096, 32, 8, 14_336, 128_256, 8192), "Llama-3.1-8B", 131_072),
        "llama3-70b": ((80, 8192, 64, 8, 28_672, 128_256, 8192), "Llama-3.1-70B", 131_072),
        "llama3-405b": ((126, 16_384, 128, 8, 53_248, 128_256, 8192), "Llama-3.1-405B", 131_072),
    }
    for name, (sizes, file, context) in later.items():
        source = CONFIG % f"meta-llama/{file}"
        yield CatalogueModel(name, Family.LLAMA, _gated(*sizes), source, context)
    small = {
        "llama3.2-1b": ((16, 2048, 32, 8, 8192, 128_256, 8192), "Llama-3.2-1B"),
        "llama3.2-3b": ((28, 3072, 24, 8, 8192, 128_256, 8192), "Llama-3.2-3B"),
    }
    for name, (sizes, file) in small.items():
        shape = replace(_gated(*sizes), ties_embeddings=True)
        yield CatalogueModel(name, Family.LLAMA, shape, CONFIG % f"meta-llama/{file}", 131_072)


def _mistral() -> Iterator[CatalogueModel]:
    seven = _gated(32, 4096, 32, 8, 14_336, 32_768, 8192)
    nemo = replace(_gated(40, 5120, 32, 8, 14_336, 131_072, 8192), head_size=128)
    for name, shape, file, context in (
        ("mistral-7b", seven, "Mistral-7B-v0.3", 32_768),
        ("mistral-nemo-12b", nemo, "Mistral-Nemo-Base-2407", 131_072),
    ):
        yield CatalogueModel(name, Family.MISTRAL, shape, CONFIG % f"mistralai/{file}", context)


def _qwen() -> Iterator[CatalogueModel]:
    # Layers, width, heads, KV heads, inner width, vocabulary, one matrix for tokens and logits.
    second = {
        "qwen2.5-0.5b": (24, 896, 14, 2, 4864, 151_936, True, 32_768),
        "qwen2.5-1.5b": (28, 1536, 12, 2, 8960, 151_936, True, 131_072),
        "qwen2.5-3b": (36, 2048, 16, 2, 11_008, 151_936, True, 32_768),
        "qwen2.5-7b": (28, 3584, 28, 4, 18_944, 152_064, False, 131_072),
        "qwen2.5-14b": (48, 5120, 40, 8, 13_824, 152_064, False, 131_072),
        "qwen2.5-32b": (64, 5120, 40, 8, 27_648, 152_064, False, 131_072),
        "qwen2.5-72b": (80, 8192, 64, 8, 29_568, 152_064, False, 131_072),
    }
    for name, (*sizes, vocabulary, ties, context) in second.items():
        layers, hidden, heads, kv_heads, inner = sizes
        shape = _gated(layers, hidden, heads, kv_heads, inner, vocabulary, 4096)
        shape = replace(shape, has_query_biases=True, ties_embeddings=ties)
        file = name.replace("qwen", "Qwen/Qwen").replace("b", "B")
        yield CatalogueModel(name, Family.QWEN, shape, CONFIG % file, context)
    third = {
        "qwen3-0.6b": (28, 1024, 16, 8, 3072, True, 32_768),
        "qwen3-1.7b": (28, 2048, 16, 8, 6144, True, 32_768),
        "qwen3-4b": (36, 2560, 32, 8, 9728, True, 32_768),
        "qwen3-8b": (36, 4096, 32, 8, 12_288, False, 32_768),
        "qwen3-14b": (40, 5120, 40, 8, 17_408, False, 32_768),
        "qwen3-32b": (64, 5120, 64, 8, 25_600, False, 32_768),
    }
    for name, (*sizes, ties, context) in third.items():
        layers, hidden, heads, kv_heads, inner = sizes
        shape = _gated(layers, hidden, heads, kv_heads, inner, 151_936, 4096)
        shape = replace(shape, head_size=128, has_head_norms=True, ties_embeddings=ties)
        file = name.replace("qwen", "Qwen/Qwen").replace("b", "B")
        yield CatalogueModel(name, Family.QWEN, shape, CONFIG % file, context)


def _gpt() -> Iterator[CatalogueModel]:
    second = {
        "gpt2": (12, 768, 12),
        "gpt2-medium": (24, 1024, 16),
        "gpt2-large": (36, 1280, 20),
        "gpt2-xl": (48, 1600, 25),
    }
    for name, (layers, hidden, heads) in second.items():
        shape = Shape(layers, hidden, heads, 1024, 50_257, positions=1024)
        yield CatalogueModel(name, Family.GPT, shape, CONFIG % f"openai-community/{name}", 1024)
    # With a vocabulary of 51,200.
    source = "SC21, table 1 (arXiv 2104.04473), and Korthikanti et al., table 3 (arXiv 2205.05198)"
    published = {
        "GPT-22B": (48, 6144, 64),
        "GPT-175B": (96, 12_288, 96),
        "GPT-530B": (105, 20_480, 128),
        "GPT-1T": (128, 25_600, 160),
        "megatron-1T": (128, 25_600, 160),
    }
    for name, (layers, hidden, heads) in published.items():
        shape = Shape(layers, hidden, heads, 2048, 51_200)
        yield CatalogueModel(name, Family.GPT, shape, source, 2048)
