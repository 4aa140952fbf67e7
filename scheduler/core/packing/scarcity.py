"""The penalty for placing a request on a GPU model that it does not need but others do.

A model is scarce if it has fewer idle GPUs than its part of the demand still to come. The demand to
come is taken as what the cluster has idle, at least 2 % of it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler.core.packing.kinds import KindMix

ModelShares = npt.NDArray[np.float64]
MAX_SCARCITY = 3.0
MIN_TO_COME = 0.02
MIN_USABLE_IDLE = 0.45  # a smaller idle part does not count as a GPU of its model


def model_shares(mix: KindMix, gpus: Sequence[int]) -> ModelShares:
    """Per model, the part of all GPU demand that is bound to it. Demand that may use several models
    is split by their numbers of GPUs, `gpus`."""
    shares, total = np.zeros(len(gpus)), 0.0
    for kind, count in mix.items():
        total += count * kind.amount
        if kind.models is None:
            continue
        allowed_gpus = sum(gpus[model] for model in kind.models)
        for model in kind.models:
            shares[model] += (
                count * kind.amount * gpus[model] / allowed_gpus if allowed_gpus else 0.0
            )
    return shares / total if total else shares


def scarcity(shares: ModelShares, free: ModelShares, idle: float, capacity: float) -> ModelShares:
    """Per model, from 0 to MAX_SCARCITY. `free`: idle GPUs by model; `idle`: idle GPUs in all."""
    to_come = max(MIN_TO_COME * capacity, idle)
    return np.asarray(np.minimum(MAX_SCARCITY, shares * to_come / np.maximum(1.0, free)))
