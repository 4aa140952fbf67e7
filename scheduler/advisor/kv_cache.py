"""Memory of the keys and values that a model server keeps for its tokens.

Sources: PagedAttention (arXiv 2309.06180), section 3; grouped-query attention (arXiv 2305.13245);
DeepSeek-V2 (arXiv 2405.04434), table 1, for latent attention.
"""

from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.transformer import Shape


def token_bytes(layers: int, width: float, number_bytes: float, tensor_parallel: int = 1) -> float:
    """Of one token on each GPU. The width is the number of KV heads times the head's dimension:
    the model's own width without grouped-query attention."""
    if layers < 1 or width <= 0 or tensor_parallel < 1:
        raise AdvisorError("layers, width and tensor-parallel size must be at least 1")
    return 2 * layers * width * number_bytes / tensor_parallel


def shape_token_bytes(shape: Shape, number_bytes: float = 2.0, tensor_parallel: int = 1) -> float:
    """Of one token of a model on each GPU. A KV head is on one GPU at least, and GPUs beyond the
    number of heads have copies; latent attention has one vector for all heads, so every GPU has
    it."""
    if shape.latent:
        return shape.layers * shape.latent.cached * number_bytes
    heads = shape.kv_heads or shape.heads
    width = shape.hidden * shape.attention_ratio / shape.heads * heads
    return token_bytes(shape.layers, width, number_bytes, min(tensor_parallel, heads))


def concurrency(cached_tokens: float, sequence: float) -> float:
    """How many sequences of full length fit at once."""
    if sequence <= 0:
        raise AdvisorError("the length of a sequence must be at least 1 token", "max_model_len")
    return cached_tokens / sequence
