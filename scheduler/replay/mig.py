"""`replay mig`: requests for MIG slices on equal boards, by policy, mix and lifetimes."""

import argparse
import csv
import gzip
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from tqdm import tqdm

from agents.contract.boards import Profile, known_boards
from scheduler.core.geometry.arrival_prices import Floats
from scheduler.core.geometry.layout_graph import LayoutGraph, layout_graph
from scheduler.core.geometry.placement_value import DEPARTURE_RARITY as PLANNER_RETURN
from scheduler.core.geometry.placement_value import (
    READY_BONUS,
    LayoutValues,
    layout_values,
    profile_weights,
)
from scheduler.replay import mig_baselines
from scheduler.replay.errors import ReplayError
from scheduler.replay.mig_moves import HOLE, RETURN, move_tables
from scheduler.replay.mig_simulation import (
    MigFigures,
    PlacementRule,
    RequestStream,
    churn,
    inflation,
)
from scheduler.replay.mig_simulation import run as simulate

MIXES = ("uniform", "small", "large", "bimodal")
POLICIES = ("tessera", "firstfit", "bestfit", "leastfrag")
# A plan with a move must beat the best one without by more than this: almost nothing.
MIN_GAIN = 0.001


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--board", default="H100-80GB", help="a board's key, such as H100-80GB")
    parser.add_argument("--gpus", type=int, default=100)
    parser.add_argument("--mix", default="uniform", help=f"{'|'.join(MIXES)}|FILE (JSON or openb)")
    parser.add_argument("--lifetimes", choices=("none", "exponential"), default="none")
    parser.add_argument("--load", type=float, default=1.0, help="offered load with lifetimes")
    parser.add_argument("--seeds", default="0-9", help="3, 0-9 or 1,4,7")
    parser.add_argument("--policy", choices=POLICIES, default="tessera")
    parser.add_argument("--moves", type=int, default=0, help="restarts per placement at most")
    parser.add_argument(
        "--move-gain",
        type=float,
        default=MIN_GAIN,
        help="tessera: a move must keep this much more room; inf: only if nothing fits without",
    )
    parser.add_argument(
        "--bound", action="store_true", help="also report free repacking at each arrival"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(options: argparse.Namespace) -> int:
    """Returns 0. Raises ReplayError if the options are invalid."""
    graph = _layout_graph(options.board)
    weights, seeds = mix_weights(graph, options.mix), parse_seeds(options.seeds)
    _check(options)
    rows = []
    rule = placement_rule(options.policy, graph, weights, options.moves, options.move_gain)
    for seed in tqdm(seeds, desc="seeds", file=sys.stderr, disable=not sys.stderr.isatty()):
        rows.append(_row(options, graph, weights, rule, seed))
        _print_row(rows[-1], options.json)
    keys = [key for key in rows[0] if key != "seed"]
    _print_row(
        {"seed": "mean"} | {k: round(fmean(r[k] for r in rows), 4) for k in keys}, options.json
    )
    return 0


def placement_rule(
    policy: str, graph: LayoutGraph, weights: Floats, moves: int = 0, gain: float = MIN_GAIN
) -> PlacementRule:
    """How a policy places; `tessera` uses the planner's own table. It chooses place and move
    together if `moves` are allowed and `gain` is finite; the others move only if nothing fits."""
    match policy:
        case "tessera" if moves and gain < np.inf:
            table = tessera_values(graph, weights, HOLE, RETURN)
            return PlacementRule(
                table.losses, READY_BONUS, moves, move_tables(graph, weights), gain
            )
        case "tessera":
            table = tessera_values(graph, weights)
            return PlacementRule(table.losses, READY_BONUS, moves, roomy=table.losses_when_roomy)
        case "firstfit":
            return PlacementRule(mig_baselines.first_fit(graph), moves=moves)
        case "bestfit":
            return PlacementRule(mig_baselines.best_fit(graph), moves=moves)
    return PlacementRule(mig_baselines.least_fragmentation(graph), moves=moves)


def tessera_values(
    graph: LayoutGraph, weights: Floats, hole: float | None = None, returns: float = PLANNER_RETURN
) -> LayoutValues:
    mix = profile_weights(dict(zip(graph.profile_names, weights.tolist(), strict=True)))
    found = layout_values(graph.board, mix, hole, returns)
    if found is None:
        raise ReplayError(f"{graph.board.key} has no table of layouts")
    return found


def _row(
    options: argparse.Namespace, graph: LayoutGraph, weights: Floats, rule: PlacementRule, seed: int
) -> dict[str, Any]:
    stream = _stream(options, graph, weights, seed)
    figures = simulate(graph, stream, options.gpus, rule)
    row = {"seed": seed} | {key: round(value, 4) for key, value in asdict(figures).items()}
    if options.bound:
        bound: MigFigures = mig_baselines.free_repacking(graph, stream, options.gpus)
        row["free_repacking_pct"] = round(bound.accepted_pct, 4)
    return row


def _stream(
    options: argparse.Namespace, graph: LayoutGraph, weights: Floats, seed: int
) -> RequestStream:
    if options.lifetimes == "none":
        return inflation(graph, weights, options.gpus, seed)
    return churn(graph, weights, options.gpus, options.load, seed)


def _print_row(row: dict[str, Any], as_json: bool) -> None:
    text = json.dumps(row) if as_json else "  ".join(f"{key} {row[key]}" for key in row)
    print(text, flush=True)


def _layout_graph(key: str) -> LayoutGraph:
    board = known_boards().get(key)
    found = layout_graph(board) if board else None
    if found is None:
        with_mig = ", ".join(sorted(k for k, b in known_boards().items() if b.supports_mig))
        raise ReplayError(f"--board {key}: choose one of {with_mig}")
    return found


def _check(options: argparse.Namespace) -> None:
    if not 1 <= options.gpus <= 10_000:
        raise ReplayError("--gpus: from 1 to 10000")
    if not 0 <= options.moves <= 7:
        raise ReplayError("--moves: from 0 to 7")
    if not 0.01 <= options.load <= 10:
        raise ReplayError("--load: from 0.01 to 10")
    if not options.move_gain >= 0:
        raise ReplayError("--move-gain: 0 or more")


def parse_seeds(text: str) -> list[int]:
    try:
        parts = [part.split("-") for part in text.split(",")]
        found = [
            n for first, *last in parts for n in range(int(first), int((last or [first])[0]) + 1)
        ]
    except ValueError:
        found = []
    if not 0 < len(found) <= 10_000:
        raise ReplayError(f"--seeds {text}: write 3, 0-9 or 1,4,7")
    return found


def plain_profiles(graph: LayoutGraph) -> list[Profile]:
    """The profiles that a plain request may get, smallest first."""
    plain = (p for p in graph.board.profiles if not p.has_media_extensions)
    return sorted(plain, key=lambda p: (p.memory_slices, p.compute_slices))


def named_mix(graph: LayoutGraph, name: str) -> dict[str, float]:
    """Weights by profile. With n profiles, smallest first, i = 0 .. n - 1: `small` n - i, `large`
    i + 1, `bimodal` the distance from the middle plus a half, `uniform` 1."""
    names = [profile.name for profile in plain_profiles(graph)]
    last = len(names) - 1
    shapes = {
        "uniform": [1.0 for _ in names],
        "small": [float(last + 1 - i) for i in range(len(names))],
        "large": [float(i + 1) for i in range(len(names))],
        "bimodal": [abs(i - last / 2) + 0.5 for i in range(len(names))],
    }
    return dict(zip(names, shapes[name], strict=True))


def mix_weights(graph: LayoutGraph, mix: str) -> Floats:
    weights_by_name = named_mix(graph, mix) if mix in MIXES else _of_file(graph, Path(mix))
    if unknown := sorted(set(weights_by_name) - set(graph.profile_names)):
        raise ReplayError(f"--mix {mix}: {graph.board.key} has no profile {unknown[0]}")
    weights = np.array([weights_by_name.get(name, 0.0) for name in graph.profile_names])
    if not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise ReplayError(f"--mix {mix}: the weights must be 0 or more, and not all 0")
    return np.asarray(weights / weights.sum())


def _of_file(graph: LayoutGraph, path: Path) -> dict[str, float]:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = raw.decode("utf-8")
        if path.suffix == ".json":
            return {str(name): float(weight) for name, weight in json.loads(text).items()}
        return openb_mix(graph, csv.DictReader(text.splitlines()))
    except OSError:
        choices = ", ".join(MIXES)
        raise ReplayError(
            f"--mix {path}: not one of {choices}, nor a file that can be read"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError):
        wanted = "neither a JSON object from profile to weight nor a list of openb pods"
        raise ReplayError(f"--mix {path}: {wanted}") from None


def openb_mix(graph: LayoutGraph, pods: "csv.DictReader[str]") -> dict[str, float]:
    """Pods that request a part of one GPU, each as the smallest profile with at least
    ceil(gpu_milli x compute slices / 1000) compute slices; of equal ones that with less memory."""
    by_compute = sorted(plain_profiles(graph), key=lambda p: (p.compute_slices, p.memory_slices))
    counts: Counter[str] = Counter()
    for pod in pods:
        milli = int(pod["gpu_milli"])
        if int(pod["num_gpu"]) == 1 and 0 < milli < 1_000:
            slices = -(-milli * graph.board.compute_slices // 1_000)
            counts[next(p.name for p in by_compute if p.compute_slices >= slices)] += 1
    return {name: float(count) for name, count in counts.items()}
