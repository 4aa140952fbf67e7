"""What the idle part of a shared GPU (a hole) is worth under the recent mix of demand.

A hole of 190 thousandths is worth nothing if the smallest request needs 230. The values are the
dual prices of the cutting-stock problem: sizes v_s >= 0 that maximise the worth of the demand while
nothing that fits together on one GPU is worth more than that GPU (Gilmore and Gomory 1961). Column
generation finds them: add the best pattern, an unbounded knapsack, until none is worth more than 1.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from scheduler.core.linear_programs import maximize

GRID = 100  # a GPU in hundredths
HoleValues = npt.NDArray[np.float64]
_ROUNDS = 400
_ENOUGH = 1e-7


def hole_values(demand: Mapping[int, float]) -> HoleValues:
    """Worth in GPUs of each hole from 0 to GRID hundredths, non-decreasing, 1 at GRID.

    `demand`: how often each size is requested, sizes in hundredths from 1 to GRID - 1. Without
    demand, only a whole GPU is worth anything.
    """
    sizes = sorted(size for size, count in demand.items() if 0 < size < GRID and count > 0)
    if not sizes:
        return whole_gpu_only_values()
    prices = _prices(sizes, np.array([demand[size] for size in sizes], dtype=float))
    values, _ = _knapsack(sizes, prices)
    values = np.minimum(values, 1.0)
    values[GRID] = 1.0
    return values


def whole_gpu_only_values() -> HoleValues:
    values = np.zeros(GRID + 1)
    values[GRID] = 1.0
    return values


def _prices(sizes: list[int], counts: HoleValues) -> HoleValues:
    """The dual of cutting stock: one price per size."""
    patterns = [
        [GRID // size if i == j else 0 for j in range(len(sizes))] for i, size in _each(sizes)
    ]
    worth = counts / counts.sum()
    for _ in range(_ROUNDS):
        matrix = np.array(patterns, dtype=float)
        solved = maximize(worth, matrix, np.ones(len(patterns)))
        prices = np.asarray(solved.x, dtype=float)
        values, pattern = _knapsack(sizes, prices)
        if values[GRID] <= 1 + _ENOUGH or pattern in patterns:
            break
        patterns.append(pattern)
    return prices


def _each(sizes: list[int]) -> list[tuple[int, int]]:
    return list(enumerate(sizes))


def _knapsack(sizes: list[int], prices: HoleValues) -> tuple[HoleValues, list[int]]:
    """The most worth that fits each capacity, and the pattern that achieves it on a whole GPU."""
    best = np.zeros(GRID + 1)
    last = np.full(GRID + 1, -1)
    for room in range(1, GRID + 1):
        best[room] = best[room - 1]
        for i, size in enumerate(sizes):
            if size <= room and best[room - size] + prices[i] > best[room] + 1e-12:
                best[room] = best[room - size] + prices[i]
                last[room] = i
    counts, room = [0] * len(sizes), GRID
    while room > 0:
        if last[room] < 0:
            room -= 1
            continue
        counts[int(last[room])] += 1
        room -= sizes[int(last[room])]
    return best, counts
