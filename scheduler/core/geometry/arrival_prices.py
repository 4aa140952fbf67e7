"""What one more arrival of each profile is worth on a well-packed board.

The linear programme gives each GPU a layout (fractions allowed) so that as many memory slices as
possible serve the demand, and no profile gets more than the mix requests. The dual price of a
profile is how much more would be served if one more request for it came: high if the profile is
rare relative to the room for it. Room for a profile is worth its size less that price.
"""

import numpy as np
from numpy.typing import NDArray

from scheduler.core.geometry.layout_graph import LayoutGraph
from scheduler.core.linear_programs import maximize

Floats = NDArray[np.float64]

# Demand per GPU as a share of its slices. Below 1 there is no shortage and so no price. The mean
# over these loads is steadier than the prices at a single load, which jump.
LOADS = (1.0, 1.1, 1.2, 1.3)


def arrival_prices(graph: LayoutGraph, weights: Floats) -> Floats:
    """The price of each profile's arrivals in memory slices, from 0 to its size.

    `weights`: how often each profile is requested; if all are zero, so are the prices."""
    size = np.array([_slices(graph, name) for name in graph.profile_names], dtype=np.float64)
    requested = float(weights @ size)
    if requested <= 0:
        return np.zeros(len(size))
    is_requested = weights > 0
    layouts = np.unique(graph.profile_counts[:, is_requested], axis=0)
    served = layouts @ size[is_requested]
    rows = np.vstack([layouts.T, np.ones(len(layouts))])
    prices = np.zeros(len(size))
    for load in LOADS:
        demand = load * graph.board.memory_slices * weights[is_requested] / requested
        solution = maximize(served, rows, [*demand, 1.0])
        if solution.status == 0:
            prices[is_requested] -= solution.ineqlin.marginals[:-1] / len(LOADS)
    return np.clip(np.round(prices, 6), 0.0, size)


def _slices(graph: LayoutGraph, name: str) -> int:
    profile = graph.board.profile(name)
    assert profile is not None  # noqa: S101 - names are the board's own
    return profile.memory_slices
