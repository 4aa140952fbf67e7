"""Model FLOPs utilisation: how much of its GPUs' peak a training uses for its model. Pure.

What a token costs is counted as if nothing were computed twice, so that recompute does not count as
work. Source: PaLM (arXiv 2204.02311), appendix B; Korthikanti et al. (arXiv 2205.05198), section 6.
With adapters, frozen matrices need no gradients of their weights: two of the three products of a
step are left (LoRA, arXiv 2106.09685, section 4.2).
"""

from scheduler.advisor.errors import checked
from scheduler.advisor.transformer import Shape

SOURCE = "PaLM, arXiv 2204.02311, B"
# Beyond what all GPUs of the world compute.
MOST_FLOPS, MOST_TOKENS = 1e25, 1e15


def token_flops(shape: Shape, *, trains_adapters: bool = False) -> float:
    """Of one token in one training step, forward and backward."""
    whole = shape.model_flops(1) / shape.sequence
    if not trains_adapters:
        return whole
    return (2 * whole + shape.attention_token_flops) / 3


def utilisation_percent(tokens_per_second: float, flops_each: float, peak_flops: float) -> float:
    """Of the peak of all GPUs together; over 100 where a number is wrong. Raises AdvisorError."""
    checked("tokens_per_second", tokens_per_second, 0, MOST_TOKENS, whole=False)
    checked("flops_each", flops_each, 0, MOST_FLOPS, whole=False)
    checked("peak_flops", peak_flops, 1, MOST_FLOPS, whole=False)
    return 100 * tokens_per_second * flops_each / peak_flops
