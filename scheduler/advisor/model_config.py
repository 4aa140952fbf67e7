"""A model's shape from its `config.json`, as Hugging Face's transformers writes it.

Only architectures of which every matrix is known here are read: another one is an error, never a
guess. Source: `configuration_*.py` and `modeling_*.py` of transformers 4.57.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.advisor.errors import UnknownInput
from scheduler.advisor.transformer import Shape

# Dense decoders with a gated feed-forward part and norms without biases.
GATED = frozenset(
    {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
)
GPT2 = "GPT2LMHeadModel"
ARCHITECTURES = (*GATED, GPT2)
MOST_TOKENS = 8192  # of a training sequence, unless one is asked for
LARGEST = 10**7


def shape_from_config(config: Mapping[str, Any], sequence: int = 0) -> Shape:
    """The sequence is that of training; left out, what the model can take, up to 8,192 tokens."""
    architecture = _architecture(config)
    if architecture == GPT2:
        width = _number(config, "n_embd")
        return Shape(
            layers=_number(config, "n_layer"),
            hidden=width,
            heads=_number(config, "n_head"),
            sequence=sequence or min(_number(config, "n_positions"), MOST_TOKENS),
            vocabulary=_number(config, "vocab_size"),
            feed_forward=_number(config, "n_inner", 4 * width),
        )
    heads = _number(config, "num_attention_heads")
    kv_heads = _number(config, "num_key_value_heads", heads)
    if heads % kv_heads:
        raise UnknownInput(f"{heads} heads do not divide by {kv_heads} heads of keys and values")
    hidden = _number(config, "hidden_size")
    return Shape(
        layers=_number(config, "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        sequence=sequence or min(_number(config, "max_position_embeddings"), MOST_TOKENS),
        vocabulary=_number(config, "vocab_size"),
        kv_heads=kv_heads,
        feed_forward=_number(config, "intermediate_size"),
        gated=True,
        head_size=_number(config, "head_dim", 0),
        ties_embeddings=config.get("tie_word_embeddings") is True,
        has_query_biases=architecture == "Qwen2ForCausalLM" or config.get("attention_bias") is True,
    )


def _architecture(config: Mapping[str, Any]) -> str:
    given = config.get("architectures")
    name = given[0] if isinstance(given, list) and given else None
    if name not in ARCHITECTURES:
        raise UnknownInput(
            f"the architecture {str(name)[:80]!r} is not known: give the model's sizes, or use one "
            f"of {', '.join(ARCHITECTURES)}"
        )
    return str(name)


def _number(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = config.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise UnknownInput(f"{name} must be a whole number between 1 and {LARGEST:,}")
    return value
