"""A model's shape from its `config.json`, as Hugging Face's transformers writes it.

Only architectures of which every matrix is known here are read: another one is an error, never a
guess. Source: `configuration_*.py` and `modeling_*.py` of transformers 4.57.
"""

from collections.abc import Callable, Mapping
from typing import Any

from scheduler.advisor.errors import AdvisorError, checked
from scheduler.advisor.latent_attention import LatentAttention
from scheduler.advisor.mixture import Experts
from scheduler.advisor.transformer import LONGEST_SEQUENCE, Shape

MOST_TOKENS = 8192  # of a training sequence, unless one is asked for
LARGEST = 10**7
Config = Mapping[str, Any]


def shape_from_config(config: Config, sequence: int = 0) -> Shape:
    """The sequence is that of training; left out, what the model can take, up to 8,192 tokens.
    Raises AdvisorError, whose field is the key at fault."""
    checked("sequence", sequence, 0, LONGEST_SEQUENCE)
    return READERS[_architecture(config)](config, sequence)


def _gpt2(config: Config, sequence: int) -> Shape:
    width, positions = _number(config, "n_embd"), _number(config, "n_positions")
    return Shape(
        layers=_number(config, "n_layer"),
        hidden=width,
        heads=_number(config, "n_head"),
        sequence=sequence or min(positions, MOST_TOKENS),
        vocabulary=_number(config, "vocab_size"),
        feed_forward=_number(config, "n_inner", 4 * width),
        positions=positions,
    )


def _gated(config: Config, sequence: int, experts: Experts | None = None) -> Shape:
    """Decoders with a gated feed-forward part and norms without biases."""
    heads = _number(config, "num_attention_heads")
    architecture = _architecture(config)
    return Shape(
        layers=_number(config, "num_hidden_layers"),
        hidden=_number(config, "hidden_size"),
        heads=heads,
        sequence=sequence or min(_number(config, "max_position_embeddings"), MOST_TOKENS),
        vocabulary=_number(config, "vocab_size"),
        kv_heads=_number(config, "num_key_value_heads", heads),
        # Mixtral's and Qwen's have no plain layers; their key is that of experts or unused.
        feed_forward=_number(config, "intermediate_size"),
        gated=True,
        head_size=_number(config, "head_dim", 0),
        ties_embeddings=config.get("tie_word_embeddings") is True,
        has_query_biases=architecture in QUERY_BIASES or config.get("attention_bias") is True,
        has_head_norms=architecture in HEAD_NORMS,
        experts=experts,
    )


def _mixtral(config: Config, sequence: int) -> Shape:
    experts = Experts(
        count=_number(config, "num_local_experts"),
        top=_number(config, "num_experts_per_tok"),
        width=_number(config, "intermediate_size"),
    )
    return _gated(config, sequence, experts)


def _qwen_experts(config: Config, sequence: int) -> Shape:
    _only(config, "decoder_sparse_step", 1)
    _only(config, "mlp_only_layers", [])
    shares = _architecture(config) == "Qwen2MoeForCausalLM"
    experts = Experts(
        count=_number(config, "num_experts"),
        top=_number(config, "num_experts_per_tok"),
        width=_number(config, "moe_intermediate_size"),
        shared_width=_number(config, "shared_expert_intermediate_size") if shares else 0,
        gates_shared=shares,
    )
    return _gated(config, sequence, experts)


def _deepseek(config: Config, sequence: int) -> Shape:
    """The first DeepSeek with experts has plain attention; later ones have the latent one."""
    _only(config, "moe_layer_freq", 1)
    width = _number(config, "moe_intermediate_size")
    experts = Experts(
        count=_number(config, "n_routed_experts"),
        top=_number(config, "num_experts_per_tok"),
        width=width,
        shared_width=width * _number(config, "n_shared_experts", 0),
        dense_layers=_number(config, "first_k_dense_replace", 0, least=0),
    )
    if _architecture(config) == "DeepseekForCausalLM":
        return _gated(config, sequence, experts)
    heads = _number(config, "num_attention_heads")
    return Shape(
        layers=_number(config, "num_hidden_layers"),
        hidden=_number(config, "hidden_size"),
        heads=heads,
        sequence=sequence or min(_number(config, "max_position_embeddings"), MOST_TOKENS),
        vocabulary=_number(config, "vocab_size"),
        feed_forward=_number(config, "intermediate_size"),
        gated=True,
        ties_embeddings=config.get("tie_word_embeddings") is True,
        experts=experts,
        latent=LatentAttention(
            kv_rank=_number(config, "kv_lora_rank"),
            query_rank=_number(config, "q_lora_rank", 0),
            position_size=_number(config, "qk_rope_head_dim"),
            content_size=_number(config, "qk_nope_head_dim"),
            value_size=_number(config, "v_head_dim"),
        ),
    )


def _bert(config: Config, sequence: int) -> Shape:
    """With a pooler, or the head that finds masked words."""
    width, vocabulary = _number(config, "hidden_size"), _number(config, "vocab_size")
    positions = _number(config, "max_position_embeddings")
    others = (_number(config, "type_vocab_size", 2) + 2) * width + width**2 + width
    if _architecture(config) == "BertForMaskedLM":
        others += 2 * width + vocabulary
    return Shape(
        layers=_number(config, "num_hidden_layers"),
        hidden=width,
        heads=_number(config, "num_attention_heads"),
        sequence=min(sequence, positions) or positions,
        vocabulary=vocabulary,
        feed_forward=_number(config, "intermediate_size"),
        positions=positions,
        is_causal=False,
        other_parameters=others,
    )


def _vit(config: Config, sequence: int) -> Shape:
    """Its sequence is that of its images."""
    width, patch = _number(config, "hidden_size"), _number(config, "patch_size")
    tokens = (_number(config, "image_size") // patch) ** 2 + 1
    labels = config.get("id2label")
    classes = len(labels) if isinstance(labels, Mapping) else _number(config, "num_labels", 2)
    channels = _number(config, "num_channels", 3)
    others = (channels * patch**2 + 1) * width + 3 * width + classes * (width + 1)
    return Shape(
        layers=_number(config, "num_hidden_layers"),
        hidden=width,
        heads=_number(config, "num_attention_heads"),
        sequence=tokens,
        feed_forward=_number(config, "intermediate_size"),
        positions=tokens,
        is_causal=False,
        other_parameters=others,
    )


READERS: Mapping[str, Callable[[Config, int], Shape]] = {
    "LlamaForCausalLM": _gated,
    "MistralForCausalLM": _gated,
    "Qwen2ForCausalLM": _gated,
    "Qwen3ForCausalLM": _gated,
    "MixtralForCausalLM": _mixtral,
    "Qwen2MoeForCausalLM": _qwen_experts,
    "Qwen3MoeForCausalLM": _qwen_experts,
    "DeepseekForCausalLM": _deepseek,
    "DeepseekV2ForCausalLM": _deepseek,
    "DeepseekV3ForCausalLM": _deepseek,
    "GPT2LMHeadModel": _gpt2,
    "BertModel": _bert,
    "BertForMaskedLM": _bert,
    "ViTForImageClassification": _vit,
}
ARCHITECTURES = tuple(READERS)
QUERY_BIASES = ("Qwen2ForCausalLM", "Qwen2MoeForCausalLM")
HEAD_NORMS = ("Qwen3ForCausalLM", "Qwen3MoeForCausalLM")


def _architecture(config: Config) -> str:
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if not isinstance(name, str) or name not in READERS:
        raise AdvisorError(
            "the architecture %(name)s is not known: give the model's sizes, or use one of "
            "%(known)s",
            "architectures",
            name=repr(str(name)[:80]),
            known=", ".join(READERS),
        )
    return name


def _only(config: Config, name: str, value: object) -> None:
    """Layers that differ are not known here."""
    if config.get(name, value) not in (value, None):
        raise AdvisorError(
            "%(name)s must be %(value)s: other patterns of layers are not known",
            name,
            name=name,
            value=str(value),
        )


def _number(config: Config, name: str, default: int | None = None, least: int = 1) -> int:
    value = config.get(name)
    if value is None and default is not None:
        return default
    return int(checked(name, value, least, LARGEST))
