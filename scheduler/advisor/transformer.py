"""The shape of a transformer: its parameters and the floating-point operations of a step.

Sources: Narayanan et al., SC21 (arXiv 2104.04473), equations 2 and 3; Korthikanti et al. (arXiv
2205.05198), appendix A.
"""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.advisor.errors import UnknownInput


class Recompute(StrEnum):
    """Which activations the backward pass computes again."""

    NONE = "none"
    SELECTIVE = "selective"  # the core of attention
    FULL = "full"  # every layer from its input


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder of dense layers. What is left out is as in GPT: every head has keys and values of
    its own, and the feed-forward part has two matrices of four times the width."""

    layers: int
    hidden: int
    heads: int
    sequence: int  # tokens
    vocabulary: int = 0
    kv_heads: int = 0  # fewer than heads with grouped-query attention
    feed_forward: int = 0
    gated: bool = False  # a third matrix of the feed-forward part, as SwiGLU has
    head_size: int = 0  # numbers of a head; left out, the heads share the width
    ties_embeddings: bool = False  # one matrix reads tokens and gives logits
    has_query_biases: bool = False  # of queries, keys and values, in a model without others

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "sequence"):
            if getattr(self, name) < 1:
                raise UnknownInput(f"{name} must be at least 1")
        for name in ("vocabulary", "kv_heads", "feed_forward", "head_size"):
            if getattr(self, name) < 0:
                raise UnknownInput(f"{name} must not be negative")

    @property
    def kv_share(self) -> float:
        """Of the heads, how many have keys and values of their own."""
        return (self.kv_heads or self.heads) / self.heads

    @property
    def attention_ratio(self) -> float:
        """Width of all heads over that of the model: 1 unless the size of a head is its own."""
        return self.heads * self.head_size / self.hidden if self.head_size else 1.0

    @property
    def feed_forward_ratio(self) -> float:
        return (self.feed_forward or 4 * self.hidden) / self.hidden

    @property
    def layer_parameters(self) -> float:
        """Parameters of all layers' matrices, 12 L h^2 in GPT: no biases, norms or embeddings."""
        attention = self.attention_ratio * (2 + 2 * self.kv_share)
        feed_forward = (3 if self.gated else 2) * self.feed_forward_ratio
        return self.layers * self.hidden**2 * (attention + feed_forward)

    @property
    def parameters(self) -> float:
        """All parameters, in GPT 12 L h^2 (1 + 13/(12 h) + (V + s)/(12 L h)). A gated model has no
        table of positions and no biases but those of queries, and a matrix for its logits."""
        if self.gated:
            others = (2 * self.layers + 1) * self.hidden
            if self.has_query_biases:
                width = self.hidden * self.attention_ratio
                others += int(self.layers * width * (1 + 2 * self.kv_share))
            tables = 1 if self.ties_embeddings else 2
            return self.layer_parameters + others + tables * self.vocabulary * self.hidden
        embeddings = (self.vocabulary + self.sequence) * self.hidden
        return self.layer_parameters + 13 * self.layers * self.hidden + embeddings

    @property
    def layer_token_flops(self) -> float:
        """Of the forward pass of one token through one layer's matrices."""
        return 2 * self.layer_parameters / self.layers

    def model_flops(self, batch: int) -> float:
        """Of one training step over `batch` sequences, in GPT 72 B L s h^2 (1 + s/6h + V/12hL)."""
        return self._matrices(batch) + self._attention(batch) + self._logits(batch)

    def hardware_flops(self, batch: int, recompute: Recompute) -> float:
        """As `model_flops`, with what is computed twice."""
        again = {
            Recompute.NONE: 0.0,
            Recompute.SELECTIVE: self._attention(batch),
            Recompute.FULL: (self._matrices(batch) + self._attention(batch)) / 3,
        }[recompute]
        return self.model_flops(batch) + again

    def _matrices(self, batch: int) -> float:
        return 3 * batch * self.sequence * self.layers * self.layer_token_flops

    def _attention(self, batch: int) -> float:
        """Of the scores and their product with the values."""
        width = self.hidden * self.attention_ratio
        return 12.0 * batch * self.layers * self.sequence**2 * width

    def _logits(self, batch: int) -> float:
        return 6.0 * batch * self.sequence * self.hidden * self.vocabulary


def bert_parameters(layers: int, hidden: int, vocabulary: int, positions: int = 512) -> int:
    """Of an encoder with token types, a norm after the embeddings, and a pooler."""
    embeddings = (vocabulary + positions + 2) * hidden + 2 * hidden
    return embeddings + layers * (12 * hidden**2 + 13 * hidden) + hidden**2 + hidden
