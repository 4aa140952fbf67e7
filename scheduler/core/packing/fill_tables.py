"""How many GPUs of a node can still be filled with the CPU or memory that it has free.

Requests need different amounts of CPU per GPU. The planner picks the one that suits the node out of
every few that wait or arrive: each next GPU costs the least of `choices` independent draws.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

CHOICES = 3  # 3 to 6 differ by less than 0.1 points of allocation on openb; 2 loses, 8 too
Table = npt.NDArray[np.float64]


def fill_table(
    needs: Iterable[tuple[float, float]], step: int, top: int, gpus: int, choices: int = CHOICES
) -> Table:
    """Expected GPUs filled, as [idle GPUs 0..gpus + 1, steps of the resource 0..top].

    `needs`: pairs of an amount of the resource per GPU and its weight; amounts round up to `step`.
    With x the least of `choices` draws of law pi: A(a, c) = sum over x <= c of
    pi(x) (1 + A(a - 1, c - x)); A(0, c) = 0. Without needs, every GPU can be filled.
    """
    law = least_draw_law(needs, step, top, choices)
    table = np.zeros((gpus + 2, top + 1))
    for a in range(1, gpus + 2):
        if not law:
            table[a] = a
            continue
        for x, chance in law:
            table[a, x:] += chance * (1.0 + table[a - 1, : top + 1 - x])
    return table


def least_draw_law(
    needs: Iterable[tuple[float, float]], step: int, top: int, choices: int
) -> list[tuple[int, float]]:
    """(steps, chance) of the least of `choices` draws, up to `top` steps."""
    weights: dict[int, float] = {}
    for need, weight in needs:
        x = -int(-need // step)
        weights[x] = weights.get(x, 0.0) + weight
    total = sum(weights.values())
    law, left = [], total
    for x in sorted(weights):
        after = max(left - weights[x], 0.0)
        chance = (left / total) ** choices - (after / total) ** choices
        if x <= top and chance > 0:
            law.append((x, chance))
        left = after
    return law
