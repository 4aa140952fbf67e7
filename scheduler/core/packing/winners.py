"""The best node of a kind, found by a scan of its row or kept by a tournament.

Both compare the same numbers and prefer the first node among equals, so they agree. A scan costs N
comparisons per decision; a tournament log2 N per kind and change, and one per decision.
"""

import numpy as np

from scheduler.core.compiled import compiled
from scheduler.core.packing.kernels import Bools, Floats, Ints, Shorts

SCAN_UP_TO = 3_000  # nodes; beyond it the tournament is faster on openb


@compiled
def best_by_scan(row: Floats, model: Ints, penalty: Floats, allowed: Bools) -> int:
    """The first node with the highest score less `penalty` by model; -1 if none fits."""
    best, found = -np.inf, -1
    for n in range(row.shape[0]):
        score = row[n] - penalty[model[n]]
        if score > best and allowed[n]:
            best, found = score, n
    return found


@compiled
def _better(row: Floats, model: Ints, scarce: Floats, amount: float, a: int, b: int) -> int:
    """The winner of two nodes, a before b; -1 stands for no node."""
    if b < 0:
        return a
    if a < 0:
        return b
    mine = row[a] - scarce[model[a]] * amount
    return b if row[b] - scarce[model[b]] * amount > mine else a


@compiled
def build_tournaments(
    tree: Shorts, score: Floats, model: Ints, scarce: Floats, amount: Floats, first: int, last: int
) -> None:
    """Build the tournaments of kinds first..last - 1. `tree` [K, 2 x leaves] has its root at 1."""
    leaves, nodes = tree.shape[1] // 2, score.shape[1]
    for k in range(first, last):
        for n in range(leaves):
            tree[k, leaves + n] = n if n < nodes else -1
        for i in range(leaves - 1, 0, -1):
            a, b = tree[k, 2 * i], tree[k, 2 * i + 1]
            tree[k, i] = _better(score[k], model, scarce, amount[k], a, b)


@compiled
def replay_node(
    tree: Shorts, score: Floats, model: Ints, scarce: Floats, amount: Floats, last: int, n: int
) -> None:
    """Replay the matches of the changed node `n`, up to the first winner that stays the same."""
    leaves = tree.shape[1] // 2
    for k in range(last):
        i = (leaves + n) // 2
        while i >= 1:
            a, b = tree[k, 2 * i], tree[k, 2 * i + 1]
            winner = _better(score[k], model, scarce, amount[k], a, b)
            if winner == tree[k, i] and winner != n:
                break
            tree[k, i] = winner
            i //= 2
