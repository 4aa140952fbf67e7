"""`python -m tests.benchmarks.mig [PODS]`: the figures of docs/research/mig-packing.md.

Prints one JSON object a row and a last one with what the aims miss. PODS is openb's default list of
pods, which the mix "real" is taken from (or ../shared/data/openb/openb_pod_list_default.csv.gz).
Figures are the mean of MIG_SEEDS (0-9): accepted demand in % of the slices asked for; moves and
deletions of idle slices per 100 accepted. `over_leastfrag` is tessera less leastfrag, with its
standard error: both place the same requests.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from tqdm import tqdm

from agents.contract.boards import known_boards
from scheduler.core.geometry.arrival_prices import Floats
from scheduler.core.geometry.layout_graph import LayoutGraph, layout_graph
from scheduler.replay.mig import MIN_GAIN, MIXES, mix_weights, parse_seeds, placement_rule
from scheduler.replay.mig_baselines import free_repacking
from scheduler.replay.mig_simulation import MigFigures, churn, inflation, run

Row = dict[str, Any]
SIZES = (20, 100)
REGIMES = {"inflation": 0.0, "churn 0.9": 0.9, "churn 1.0": 1.0}
STILL = ("firstfit", "bestfit", "leastfrag", "tessera")
# Column: how much better a plan with a move must be.
MOVING = {"move_inf": np.inf, "move": MIN_GAIN}
FREE = "free_repacking"
BESIDE = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "openb"


def graph_of(board: str) -> LayoutGraph:
    graph = layout_graph(known_boards()[board])
    assert graph
    return graph


HERE = graph_of("H100-80GB")


def main() -> int:
    pods = Path(sys.argv[1]) if len(sys.argv) > 1 else BESIDE / "openb_pod_list_default.csv.gz"
    if not pods.exists():
        print(f"{pods} is not there; give openb's default list of pods", file=sys.stderr)
        return 2
    seeds = parse_seeds(os.environ.get("MIG_SEEDS", "0-9"))
    mixes = {mix: mix_weights(HERE, mix) for mix in MIXES} | {"real": mix_weights(HERE, str(pods))}
    todo = [(gpus, mix, regime) for gpus in SIZES for mix in mixes for regime in REGIMES]
    began = time.monotonic()
    rows: list[Row] = []
    bar = tqdm(todo, desc="rows", file=sys.stderr, disable=not sys.stderr.isatty())
    for gpus, mix, regime in bar:
        named = {"gpus": gpus, "mix": mix, "regime": regime}
        rows.append(named | measured(gpus, mixes[mix], REGIMES[regime], seeds))
        print(json.dumps(rows[-1]), flush=True)
    print(json.dumps(missed(rows) | {"seconds": round(time.monotonic() - began)}))
    return 0


def measured(gpus: int, weights: Floats, load: float, seeds: list[int]) -> Row:
    rules = {name: placement_rule(name, HERE, weights) for name in STILL}
    rules |= {
        name: placement_rule("tessera", HERE, weights, 1, gain) for name, gain in MOVING.items()
    }
    told: dict[str, list[MigFigures]] = {name: [] for name in (*rules, FREE)}
    for seed in seeds:
        stream = (
            churn(HERE, weights, gpus, load, seed) if load else inflation(HERE, weights, gpus, seed)
        )
        for name, rule in rules.items():
            told[name].append(run(HERE, stream, gpus, rule))
        told[FREE].append(free_repacking(HERE, stream, gpus))
    row = {name: round(fmean(f.accepted_pct for f in figures), 2) for name, figures in told.items()}
    moves = {name: per_100(told[name], "moves") for name in MOVING}
    over = [
        a.accepted_pct - b.accepted_pct
        for a, b in zip(told["tessera"], told["leastfrag"], strict=True)
    ]
    error = round(stdev(over) / len(over) ** 0.5, 2) if len(over) > 1 else None
    return row | {
        "moves": moves,
        "deletions": per_100(told["tessera"], "repartitions"),
        "over_leastfrag": [round(fmean(over), 2), error],
    }


def per_100(figures: list[MigFigures], what: str) -> int:
    count: int = sum(getattr(f, what) for f in figures)
    return round(100 * count / sum(f.accepted for f in figures))


def missed(rows: list[Row]) -> Row:
    """By aim, the rows that miss it, with the distance that was measured."""
    aims: dict[str, Callable[[Row], tuple[float, float] | None]] = {
        "at or above leastfrag": lambda r: (r["tessera"] - r["leastfrag"], 0.0),
        "3 above firstfit in churn 1.0": lambda r: (
            (r["tessera"] - r["firstfit"], 3.0) if r["regime"] == "churn 1.0" else None
        ),
        "within 0.3 of free repacking in inflation": lambda r: (
            (r["tessera"] - r[FREE], -0.3) if r["regime"] == "inflation" else None
        ),
        "one move: within 0.5 of free repacking in churn": lambda r: (
            (r["move"] - r[FREE], -0.5) if r["regime"] != "inflation" else None
        ),
    }
    found: dict[str, dict[str, float]] = {}
    for aim, rule in aims.items():
        judged = {f"{r['gpus']} {r['mix']} {r['regime']}": rule(r) for r in rows}
        found[aim] = {
            row: round(got[0], 2) for row, got in judged.items() if got and got[0] < got[1] - 1e-9
        }
    return {"missed": found}


if __name__ == "__main__":
    sys.exit(main())
