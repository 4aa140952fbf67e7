"""What one more arrival of each profile would be worth on a board that is packed well.

The linear programme: give each GPU a layout (fractions allowed) so that as many memory slices as
possible serve the demand; at most what the mix asks for of each profile. The dual price of a
profile's demand is how much more would be served if one more of it came: high for a profile that is
rare beside the room there is for it. Room for it is then worth its size less that price.
"""

import numpy as np
from numpy.typing import NDArray

from scheduler.core.geometry.layout_graph import LayoutGraph
from scheduler.core.linear_programs import maximize

Floats = NDArray[np.float64]

# Demand per GPU as a share of its slices. At less there is no shortage, so no price; the mean over
# these is steadier than the prices at one load, which jump.
LOADS = (1.0, 1.1, 1.2, 1.3)


def arrival_prices(graph: LayoutGraph, weights: Floats) -> Floats:
    """The price of each profile's arrivals, in memory slices, 0 up to its size; zeros where
    `weights` (how often each profile is asked for) are all zero."""
    size = np.array([_slices(graph, name) for name in graph.profile_names], dtype=np.float64)
    asked = float(weights @ size)
    if asked <= 0:
        return np.zeros(len(size))
    wanted = weights > 0
    layouts = np.unique(graph.profile_counts[:, wanted], axis=0)
    served = layouts @ size[wanted]
    rows = np.vstack([layouts.T, np.ones(len(layouts))])
    prices = np.zeros(len(size))
    for load in LOADS:
        demand = load * graph.board.memory_slices * weights[wanted] / asked
        found = maximize(served, rows, [*demand, 1.0])
        if found.status == 0:
            prices[wanted] -= found.ineqlin.marginals[:-1] / len(LOADS)
    return np.clip(np.round(prices, 6), 0.0, size)


def _slices(shape: LayoutGraph, name: str) -> int:
    profile = shape.board.profile(name)
    assert profile is not None  # noqa: S101 - names are the board's own
    return profile.memory_slices
