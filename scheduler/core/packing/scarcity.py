"""What a GPU of a model costs whoever does not need that model.

A model is scarce where the idle GPUs of it are fewer than its part of what is still to come. As
much is expected to come as the cluster has idle, at least 2 % of it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler.core.packing.kinds import KindMix

ModelShares = npt.NDArray[np.float64]
MAX_SCARCITY = 3.0
MIN_TO_COME = 0.02
MIN_USABLE_IDLE = 0.45  # a smaller hole is no GPU of its model any more


def model_shares(mix: KindMix, gpus: Sequence[int]) -> ModelShares:
    """Per model, the part of all GPU demand that must have it; demand that may have several of them
    is split by how many GPUs each has. `gpus`: of each model."""
    shares, total = np.zeros(len(gpus)), 0.0
    for kind, count in mix.items():
        total += count * kind.amount
        if kind.models is None:
            continue
        there = sum(gpus[model] for model in kind.models)
        for model in kind.models:
            shares[model] += count * kind.amount * gpus[model] / there if there else 0.0
    return shares / total if total else shares


def scarcity(shares: ModelShares, free: ModelShares, idle: float, capacity: float) -> ModelShares:
    """Per model, from 0 to MOST. `free`: idle GPUs of each model; `idle`: GPUs idle in all."""
    to_come = max(MIN_TO_COME * capacity, idle)
    return np.asarray(np.minimum(MAX_SCARCITY, shares * to_come / np.maximum(1.0, free)))
