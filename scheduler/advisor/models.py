"""Models by name: shapes from their papers and published `config.json` files."""

from dataclasses import replace

from scheduler.advisor.errors import UnknownInput
from scheduler.advisor.transformer import Shape, bert_parameters


def _llama(
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    feed_forward: int,
    vocabulary: int,
    sequence: int,
) -> Shape:
    return Shape(layers, hidden, heads, sequence, vocabulary, kv_heads, feed_forward, gated=True)


def _qwen2(
    layers: int, hidden: int, heads: int, kv_heads: int, feed_forward: int, vocabulary: int
) -> Shape:
    shape = _llama(layers, hidden, heads, kv_heads, feed_forward, vocabulary, sequence=4096)
    return replace(shape, has_query_biases=True)


SHAPES = {
    # Narayanan et al. (SC21) table 1 and Korthikanti et al. table 3; a vocabulary of 51,200.
    "GPT-22B": Shape(48, 6144, 64, 2048, 51_200),
    "GPT-175B": Shape(96, 12_288, 96, 2048, 51_200),
    "GPT-530B": Shape(105, 20_480, 128, 2048, 51_200),
    "GPT-1T": Shape(128, 25_600, 160, 2048, 51_200),
    "megatron-1T": Shape(128, 25_600, 160, 2048, 51_200),
    # The models' config.json files; the sequence is that of pre-training.
    "llama2-7b": _llama(32, 4096, 32, 32, 11_008, 32_000, 4096),
    "llama2-13b": _llama(40, 5120, 40, 40, 13_824, 32_000, 4096),
    "llama2-70b": _llama(80, 8192, 64, 8, 28_672, 32_000, 4096),
    "llama3-8b": _llama(32, 4096, 32, 8, 14_336, 128_256, 8192),
    "llama3-70b": _llama(80, 8192, 64, 8, 28_672, 128_256, 8192),
    "llama3-405b": _llama(126, 16_384, 128, 8, 53_248, 128_256, 8192),
    "qwen2.5-7b": _qwen2(28, 3584, 28, 4, 18_944, 152_064),
    "qwen2.5-14b": _qwen2(48, 5120, 40, 8, 13_824, 152_064),
    "qwen2.5-32b": _qwen2(64, 5120, 40, 8, 27_648, 152_064),
    "qwen2.5-72b": _qwen2(80, 8192, 64, 8, 29_568, 152_064),
}
# Layers, width, vocabulary.
BERT = {
    "bert-base-cased": (12, 768, 28_996),
    "bert-base-uncased": (12, 768, 30_522),
    "bert-large-cased": (24, 1024, 28_996),
    "bert-large-uncased": (24, 1024, 30_522),
}


def shape_by_name(name: str) -> Shape:
    if name not in SHAPES:
        raise UnknownInput(
            f"the shape of {name!r} is not known: give layers, hidden, heads, seq and vocab, or "
            f"use one of {', '.join(SHAPES)}"
        )
    return SHAPES[name]


def parameters_by_name(name: str) -> float:
    if name in BERT:
        return bert_parameters(*BERT[name])
    return shape_by_name(name).parameters


def shape_by_parameters(parameters: float) -> Shape:
    """The shape in SC21's style whose size is nearest, within 5 %; an error where none is."""
    dense = (shape for shape in SHAPES.values() if not shape.gated)
    nearest = min(dense, key=lambda shape: abs(shape.parameters - parameters))
    if abs(nearest.parameters - parameters) > 0.05 * parameters:
        raise UnknownInput(
            f"no published shape has about {parameters:.3g} parameters: give layers and hidden"
        )
    return nearest
