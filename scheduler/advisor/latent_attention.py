"""Multi-head latent attention: keys and values are made from one short vector for each token.

Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1 and appendix C.
"""

from dataclasses import dataclass

from scheduler.advisor.errors import checked

LARGEST = 10**6


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Its ranks, and the sizes of a head."""

    kv_rank: int
    query_rank: int  # 0 where queries have a matrix of their own
    position_size: int  # of a key, shared by all heads, with its position in it
    content_size: int  # of a query or key, without positions
    value_size: int

    def __post_init__(self) -> None:
        checked("kv_rank", self.kv_rank, 1, LARGEST)
        checked("query_rank", self.query_rank, 0, LARGEST)
        checked("position_size", self.position_size, 0, LARGEST)
        checked("content_size", self.content_size, 1, LARGEST)
        checked("value_size", self.value_size, 1, LARGEST)

    @property
    def head_size(self) -> int:
        """Numbers of a query or a key of one head."""
        return self.content_size + self.position_size

    @property
    def cached(self) -> int:
        """Numbers that a server keeps of one token in one layer."""
        return self.kv_rank + self.position_size

    def parameters(self, hidden: int, heads: int) -> float:
        """Matrices of one layer."""
        queries = heads * self.head_size
        down = hidden * self.cached + self.kv_rank * heads * (self.content_size + self.value_size)
        out = heads * self.value_size * hidden
        if self.query_rank:
            return hidden * self.query_rank + self.query_rank * queries + down + out
        return hidden * queries + down + out

    @property
    def norms(self) -> int:
        """Weights of the norms of one layer's short vectors."""
        return self.kv_rank + self.query_rank

    def activations(self, heads: int) -> float:
        """Numbers that one token keeps of one layer for the backward pass: the short vectors
        before and after their norms, queries, keys, values and what leaves attention."""
        short = 2 * (self.cached + self.query_rank)
        return short + 2.0 * heads * (self.head_size + self.value_size)
