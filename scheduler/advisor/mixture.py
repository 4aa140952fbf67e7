"""Layers whose feed-forward part is a mixture of experts.

Sources: Shazeer et al. (arXiv 1701.06538) for the mixture; DeepSeekMoE (arXiv 2401.06066) for
experts that every token has, and for first layers without experts.
"""

from dataclasses import dataclass

from scheduler.advisor.errors import checked

MOST_EXPERTS, WIDEST = 4_096, 10**7


@dataclass(frozen=True, slots=True)
class Experts:
    """Of each layer that has them."""

    count: int  # to choose from
    top: int  # chosen for each token
    width: int  # inner width of one
    shared_width: int = 0  # of those that every token has, together
    dense_layers: int = 0  # first layers with a plain feed-forward part
    gates_shared: bool = False  # Qwen2 weighs what the shared expert gives

    def __post_init__(self) -> None:
        checked("experts", self.count, 1, MOST_EXPERTS)
        checked("experts_per_token", self.top, 1, self.count)
        checked("expert_width", self.width, 1, WIDEST)
        checked("shared_expert_width", self.shared_width, 0, WIDEST)
        checked("dense_layers", self.dense_layers, 0, WIDEST)

    def distinct(self, tokens: float) -> float:
        """How many experts of a layer `tokens` tokens reach together, if each chooses by chance:
        E (1 - (1 - k/E)^n), the expected number of non-empty bins."""
        missed: float = (1 - self.top / self.count) ** tokens
        return self.count * (1 - missed)

    def parameters(self, hidden: int, matrices: int) -> float:
        """Of one layer: all experts, the router and what is shared."""
        return self._of(self.count, hidden, matrices)

    def active_parameters(self, hidden: int, matrices: int) -> float:
        """Of one layer, those that one token meets."""
        return self._of(self.top, hidden, matrices)

    def _of(self, count: float, hidden: int, matrices: int) -> float:
        router = hidden * self.count + (hidden if self.gates_shared else 0)
        return matrices * hidden * (count * self.width + self.shared_width) + router
