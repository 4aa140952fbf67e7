"""The shape of a transformer: its parameters and the floating-point operations of a step.

Sources: Narayanan et al., SC21 (arXiv 2104.04473), equations 2 and 3; Korthikanti et al. (arXiv
2205.05198), appendix A. Of a mixture of experts, a token meets those that it chose: see `mixture`.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from scheduler.advisor.errors import AdvisorError, checked
from scheduler.advisor.latent_attention import LatentAttention
from scheduler.advisor.mixture import Experts

LARGEST_SIZE = 10**7
LONGEST_SEQUENCE = 10**7


class Recompute(StrEnum):
    """Which activations the backward pass computes again."""

    NONE = "none"
    SELECTIVE = "selective"  # the core of attention
    FULL = "full"  # every layer from its input


@dataclass(frozen=True)
class Shape:
    """A transformer. What is left out is as in GPT: every head has keys and values of its own, and
    the feed-forward part of every layer has two matrices of four times the width."""

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
    has_head_norms: bool = False  # of queries and keys, as Qwen3 has
    experts: Experts | None = None
    latent: LatentAttention | None = None
    positions: int = 0  # in a learned table of them, where it is not as long as the sequence
    is_causal: bool = True  # a token sees those before it, and the model can write text
    other_parameters: int = 0  # what no token is multiplied with: patches, a pooler, conditions

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads"):
            checked(name, getattr(self, name), 1, LARGEST_SIZE)
        checked("sequence", self.sequence, 1, LONGEST_SEQUENCE)
        for name in ("vocabulary", "kv_heads", "feed_forward", "head_size", "positions"):
            checked(name, getattr(self, name), 0, LARGEST_SIZE)
        checked("other_parameters", self.other_parameters, 0, 10**12)
        if self.kv_heads and self.heads % self.kv_heads:
            raise AdvisorError(
                "%(heads)s heads do not divide by %(kv_heads)s heads of keys and values",
                "kv_heads",
                heads=self.heads,
                kv_heads=self.kv_heads,
            )

    @cached_property
    def kv_share(self) -> float:
        """Of the heads, how many have keys and values of their own."""
        return (self.kv_heads or self.heads) / self.heads

    @cached_property
    def attention_ratio(self) -> float:
        """Width of what attention computes with over that of the model: 1 unless the size of a head
        is its own. Of latent attention the mean of keys and values."""
        if self.latent:
            sizes = self.latent.head_size + self.latent.value_size
            return self.heads * sizes / 2 / self.hidden
        return self.heads * self.head_size / self.hidden if self.head_size else 1.0

    @property
    def feed_forward_ratio(self) -> float:
        """Inner width of a plain feed-forward part over that of the model."""
        return (self.feed_forward or 4 * self.hidden) / self.hidden

    @cached_property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return max(0, self.layers - self.experts.dense_layers) if self.experts else 0

    @property
    def attention_parameters(self) -> float:
        """Of the matrices of one layer's attention."""
        if self.latent:
            return self.latent.parameters(self.hidden, self.heads)
        return self.hidden**2 * self.attention_ratio * (2 + 2 * self.kv_share)

    @cached_property
    def layer_parameters(self) -> float:
        """Parameters of all layers' matrices, 12 L h^2 in GPT: no biases, norms or embeddings."""
        return self._all_layers(
            self.experts.parameters(self.hidden, self._matrices_each) if self.experts else 0.0
        )

    @cached_property
    def active_layer_parameters(self) -> float:
        """As `layer_parameters`, of those that one token meets."""
        return self._all_layers(
            self.experts.active_parameters(self.hidden, self._matrices_each)
            if self.experts
            else 0.0
        )

    @cached_property
    def routed_parameters(self) -> float:
        """Of all experts that tokens choose from, which expert parallelism divides."""
        if not self.experts:
            return 0.0
        each = self._matrices_each * self.hidden * self.experts.width
        return self.expert_layers * self.experts.count * each

    @cached_property
    def embedding_parameters(self) -> float:
        """Of the tables of tokens and positions, and the matrix of the logits."""
        if self.gated:
            return (1 if self.ties_embeddings else 2) * self.vocabulary * self.hidden
        return (self.vocabulary + (self.positions or self.sequence)) * self.hidden

    @cached_property
    def parameters(self) -> float:
        """All parameters, in GPT 12 L h^2 (1 + 13/(12 h) + (V + s)/(12 L h)). A gated model has no
        table of positions and no biases but those of queries, and a matrix for its logits."""
        others = self.embedding_parameters + self.other_parameters
        if not self.gated:
            return self.layer_parameters + 13 * self.layers * self.hidden + others
        others += (2 * self.layers + 1) * self.hidden
        if self.latent:
            others += self.layers * self.latent.norms
        width = self.hidden * self.attention_ratio
        if self.has_query_biases:
            others += round(self.layers * width * (1 + 2 * self.kv_share))
        if self.has_head_norms:
            others += round(self.layers * 2 * width / self.heads)
        return self.layer_parameters + others

    @property
    def active_parameters(self) -> float:
        """Those that one token is multiplied with: its experts, and the logits' matrix."""
        return self.active_layer_parameters + self.vocabulary * self.hidden

    @cached_property
    def layer_token_flops(self) -> float:
        """Of the forward pass of one token through one layer's matrices, on average."""
        return 2 * self.active_layer_parameters / self.layers

    @property
    def attention_token_flops(self) -> float:
        """Of one token in a training step, in the scores and their product with the values."""
        return self._attention(1) / self.sequence

    def model_flops(self, batch: float) -> float:
        """Of one training step over `batch` sequences, in GPT 72 B L s h^2 (1 + s/6h + V/12hL)."""
        return self._matrices(batch) + self._attention(batch) + self._logits(batch)

    def hardware_flops(self, batch: float, recompute: Recompute) -> float:
        """As `model_flops`, with what is computed twice."""
        again = {
            Recompute.NONE: 0.0,
            Recompute.SELECTIVE: self._attention(batch),
            Recompute.FULL: (self._matrices(batch) + self._attention(batch)) / 3,
        }[recompute]
        return self.model_flops(batch) + again

    @property
    def _matrices_each(self) -> int:
        """Matrices of a feed-forward part."""
        return 3 if self.gated else 2

    def _all_layers(self, of_experts: float) -> float:
        plain = self._matrices_each * self.feed_forward_ratio * self.hidden**2
        inside = self.expert_layers * of_experts + (self.layers - self.expert_layers) * plain
        return self.layers * self.attention_parameters + inside

    def _matrices(self, batch: float) -> float:
        return 3 * batch * self.sequence * self.layers * self.layer_token_flops

    def _attention(self, batch: float) -> float:
        """Of the scores and their product with the values."""
        width = self.hidden * self.attention_ratio
        return 12.0 * batch * self.layers * self.sequence**2 * width

    def _logits(self, batch: float) -> float:
        return 6.0 * batch * self.sequence * self.hidden * self.vocabulary


def resized(shape: Shape, sequence: int) -> Shape:
    """The shape with sequences of another length; 0 leaves it. Its weights stay the same, and what
    reads images has the length that the image gives."""
    if not sequence or not shape.vocabulary:
        return shape
    checked("sequence", sequence, 1, LONGEST_SEQUENCE)
    positions = shape.positions or (0 if shape.gated else shape.sequence)
    return replace(shape, sequence=sequence, positions=positions)
