"""`python -m tests.benchmarks.mig_optimum`: the best online rule there is, where nothing leaves.

Exact, by dynamic programming over what two to six GPUs can still take and how much was asked
for: the rule knows the mix and when the arrivals end, and takes whatever fits, as tessera does.
Beside it free repacking, tessera, leastfrag and firstfit on MIG_STREAMS (3000) streams; accepted
demand in %. One JSON object a mix and size, three minutes in all.
"""

import json
import os
import sys
import time
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from scheduler.core.geometry.arrival_prices import Floats
from scheduler.replay.mig import mix_weights, placement_rule
from scheduler.replay.mig_baselines import free_repacking
from scheduler.replay.mig_simulation import ARRIVED_PCT, inflation, run, sizes
from tests.benchmarks.mig import HERE

Ints = NDArray[np.int64]
# By kind of request, the classes of layouts that one more leads to.
Way = tuple[tuple[int, ...], ...]
MIXES = ("large", "bimodal")
SIZES = (2, 3, 4, 5, 6)
RULES = ("tessera", "leastfrag", "firstfit")


def main() -> int:
    streams = int(os.environ.get("MIG_STREAMS", "3000"))
    for mix in MIXES:
        for gpus in SIZES:
            began, weights = time.monotonic(), mix_weights(HERE, mix)
            served, states = optimum(weights, gpus)
            row = beside(weights, gpus, streams)
            asked = row.pop("asked")
            row = {"optimum": 100 * served / asked} | row
            told = {name: round(float(value), 2) for name, value in row.items()}
            seconds = round(time.monotonic() - began)
            named = {"mix": mix, "gpus": gpus, "states": states}
            print(json.dumps(named | told | {"seconds": seconds}), flush=True)
    return 0


def beside(weights: Floats, gpus: int, streams: int) -> dict[str, float]:
    """Mean slices asked for, and what each rule takes of all of them."""
    rules = {name: placement_rule(name, HERE, weights) for name in RULES}
    asked, taken = 0.0, dict.fromkeys(("free_repacking", *RULES), 0.0)
    for seed in range(1_000, 1_000 + streams):
        stream = inflation(HERE, weights, gpus, seed)
        mine = float(sizes(HERE)[stream.profile].sum())
        asked += mine
        taken["free_repacking"] += mine * free_repacking(HERE, stream, gpus).accepted_pct
        for name, rule in rules.items():
            taken[name] += mine * run(HERE, stream, gpus, rule).accepted_pct
    return {"asked": asked / streams} | {name: total / asked for name, total in taken.items()}


def optimum(weights: Floats, gpus: int) -> tuple[float, int]:
    """(slices served in the mean, number of states)."""
    kinds = np.flatnonzero(weights > 0)
    first, ways = futures(kinds)
    many = len(ways)
    most = max(len(there) for way in ways for there in way)
    goes, number = (
        np.zeros((many, len(kinds), most), np.int64),
        np.zeros((many, len(kinds)), np.int64),
    )
    for here, way in enumerate(ways):
        for kind, there in enumerate(way):
            number[here, kind] = len(there)
            goes[here, kind, : len(there)] = there
    found = np.array(list(combinations_with_replacement(range(many), gpus)), np.int64)
    # The number of a sorted state a: the sum of (a[i] + i choose i + 1).
    choose = np.array([[comb(n + i, i + 1) for n in range(many)] for i in range(gpus)])
    states = np.empty_like(found)
    states[choose[np.arange(gpus), found].sum(axis=1)] = found
    size = sizes(HERE)[kinds].astype(np.int64)
    # Arrivals go on until they have asked for so many slices.
    until = -(-HERE.board.memory_slices * gpus * ARRIVED_PCT // 100)
    value = solved(states, choose, goes, number, weights[kinds], size, until)
    return value[choose[:, first].sum()], len(states)


def futures(kinds: NDArray[Any]) -> tuple[int, list[Way]]:
    """Layouts that the same can still be placed beside are one class: (that of an empty GPU, by
    class and kind the classes that one more leads to)."""
    spots = [
        spot for kind in kinds for spot in range(HERE.first_spots[kind], HERE.first_spots[kind + 1])
    ]
    seen, todo = {0}, [0]
    while todo:
        lay = todo.pop()
        more = {int(HERE.with_instance[lay, spot]) for spot in spots} - seen - {-1}
        seen |= more
        todo += more
    found: dict[int, int] = {}
    known: dict[Way, int] = {}
    for lay in sorted(seen, key=lambda lay: -int(HERE.profile_counts[lay].sum())):
        way = []
        for kind in kinds:
            after = HERE.with_instance[lay, HERE.first_spots[kind] : HERE.first_spots[kind + 1]]
            way.append(tuple(sorted({found[int(made)] for made in after if made >= 0})))
        found[lay] = known.setdefault(tuple(way), len(known))
    return found[0], list(known)


@njit()
def solved(
    states: Ints, choose: Ints, goes: Ints, number: Ints, share: Floats, size: Ints, until: int
) -> Floats:
    """By state, the slices still served from the first arrival on, by the best choices."""
    gpus = states.shape[1]
    value = np.zeros((until + size.max(), len(states)))
    made = np.empty(gpus, np.int64)
    for asked in range(until - 1, -1, -1):
        for at in range(len(states)):
            here, total = states[at], 0.0
            for kind in range(len(share)):
                then, best = asked + size[kind], -1.0
                for gpu in range(gpus):
                    if gpu > 0 and here[gpu] == here[gpu - 1]:
                        continue
                    for way in range(number[here[gpu], kind]):
                        made[:] = here
                        made[gpu] = goes[here[gpu], kind, way]
                        for i in range(gpu, 0, -1):
                            if made[i - 1] > made[i]:
                                made[i - 1], made[i] = made[i], made[i - 1]
                        for i in range(gpu, gpus - 1):
                            if made[i + 1] < made[i]:
                                made[i + 1], made[i] = made[i], made[i + 1]
                        code = 0
                        for i in range(gpus):
                            code += choose[i, made[i]]
                        best = max(best, value[then, code])
                if best < 0:
                    total += share[kind] * value[then, at]
                else:
                    total += share[kind] * (size[kind] + best)
            value[asked, at] = total
    served: Floats = value[0]
    return served


if __name__ == "__main__":
    sys.exit(main())
