"""Memory of the keys and values that a model server keeps for its tokens.

Source: PagedAttention (arXiv 2309.06180), section 3.
"""

from scheduler.advisor.errors import UnknownInput


def token_bytes(layers: int, width: float, number_bytes: float, tensor_parallel: int = 1) -> float:
    """Of one token on each GPU. The width is the number of KV heads times the head's dimension:
    the model's own width without grouped-query attention."""
    if layers < 1 or width <= 0 or tensor_parallel < 1:
        raise UnknownInput("layers, width and tensor-parallel size must be at least 1")
    return 2 * layers * width * number_bytes / tensor_parallel


def concurrency(cached_tokens: float, sequence: float) -> float:
    """How many sequences of full length fit at once."""
    if sequence <= 0:
        raise UnknownInput("the length of a sequence must be at least 1 token")
    return cached_tokens / sequence
