"""`python -m scheduler.replay openb`: placements on Alibaba's openb nodes, by arrived load.

The inflation method of "Beware of Fragmentation" (ATC 2023): requests arrive in random order until
1.3 times the cluster's GPUs were asked for, none leaves, one that fits nowhere is dropped. With
`--churn LOAD` they leave again. See docs/scheduling-placement.md for the figures.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from scheduler.core.packing.fragmentation import typical_kinds
from scheduler.replay import placement_baselines, placement_tessera
from scheduler.replay.openb_data import (
    GPU_MILLI,
    INFLATE_TO,
    Ints,
    TraceCluster,
    TracePods,
    inflation_arrivals,
    read_cluster,
    read_pods,
)
from scheduler.replay.placement_events import churn, only_arrivals
from scheduler.replay.placement_record import (
    PlacementDecisions,
    PlacementTimeline,
    replay_decisions,
)

POLICIES = ("tessera", *placement_baselines.RULES)
SEEDS = "42-51"
LOAD_HELP = "arrived loads to report, in %%, up to 130; default 60,80,95,100,130"
CHURN_HELP = "requests leave again; in steady state they offer this load in %%"
MIX_HELP = "the demand tessera knows: the list's mix, or a prior and the arrivals so far"


@dataclass(frozen=True, slots=True)
class OpenbResult:
    """Percent of the cluster's GPUs, by arrived load. `refused_pct`: of the requested GPUs, only
    with churn. The names are the keys of the JSON."""

    seed: int | str
    policy: str
    allocation_pct: dict[str, float]
    fragmented_pct: dict[str, float]
    placements: float
    seconds: float
    placements_per_s: float
    refused_pct: dict[str, float] = field(default_factory=dict)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=Path, required=True, help="openb_node_list_gpu_node.csv")
    parser.add_argument("--pods", type=Path, required=True, help="a pod list, .csv or .csv.gz")
    parser.add_argument("--seeds", type=_seeds, default=_seeds(SEEDS), help=f"default {SEEDS}")
    parser.add_argument("--policy", choices=POLICIES, default="tessera")
    parser.add_argument("--load", type=_loads, default=_loads("60,80,95,100,130"), help=LOAD_HELP)
    parser.add_argument("--churn", type=_load, metavar="LOAD", help=CHURN_HELP)
    parser.add_argument("--mix", choices=("list", "learned"), default="list", help=MIX_HELP)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(options: argparse.Namespace) -> int:
    """Raises TraceError."""
    cluster = read_cluster(options.nodes)
    pods = read_pods(options.pods, cluster.models)
    one = _churned if options.churn else _inflated
    results = list(_each_seed(one, cluster, pods, options))
    lines = [*results, _mean(results)]
    sys.stdout.write(_json(lines) if options.json else _table(lines))
    return 0


Run = Callable[[TraceCluster, TracePods, int, argparse.Namespace], OpenbResult]


def _each_seed(
    one: Run, cluster: TraceCluster, pods: TracePods, options: argparse.Namespace
) -> Iterator[OpenbResult]:
    hidden = not sys.stderr.isatty()
    for seed in tqdm(options.seeds, desc=options.policy, unit="seed", disable=hidden):
        yield one(cluster, pods, seed, options)


def _inflated(
    cluster: TraceCluster, pods: TracePods, seed: int, options: argparse.Namespace
) -> OpenbResult:
    requests, order = inflation_arrivals(pods, cluster, seed)
    events = only_arrivals(len(requests))
    decisions, course = _play(cluster, pods, requests, order, events, seed, options)
    capacity = cluster.gpus * GPU_MILLI
    loads = np.rint(100 * course.arrived / capacity)
    at = {str(load): loads == load for load in options.load}
    return _result(seed, options, decisions, {
        load: _percent(course.in_use[events], capacity)
        for load, events in at.items() if events.any()
    }, {
        load: _percent(course.fragmented[events], capacity)
        for load, events in at.items() if events.any()
    })  # fmt: skip


def _churned(
    cluster: TraceCluster, pods: TracePods, seed: int, options: argparse.Namespace
) -> OpenbResult:
    requests, events, counted = churn(pods, cluster.gpus, options.churn, seed)
    order = np.random.default_rng([seed, 2]).permutation(len(cluster.nodes))
    decisions, course = _play(cluster, pods, requests, order, events, seed, options)
    capacity, load = cluster.gpus * GPU_MILLI, str(options.churn)
    arriving = events >= 0
    arriving[:counted] = False
    asked = course.arrived[-1] - course.arrived[counted]
    refused = 100 * (course.refused[-1] - course.refused[counted]) / asked
    return _result(
        seed, options, decisions,
        {load: _percent(course.in_use[arriving], capacity)},
        {load: _percent(course.fragmented[arriving], capacity)},
        {load: round(float(refused), 3)},
    )  # fmt: skip


def _play(
    cluster: TraceCluster, pods: TracePods, requests: Ints, order: Ints, events: Ints, seed: int,
    options: argparse.Namespace,
) -> tuple[PlacementDecisions, PlacementTimeline]:  # fmt: skip
    nodes, kinds = cluster.nodes_in_order(order), typical_kinds(pods.mix())
    if options.policy == "tessera":
        learned = options.mix == "learned"
        decisions = placement_tessera.decide(events, requests, pods, nodes, cluster.extent, learned)
    else:
        decisions = placement_baselines.decide(
            options.policy, events, requests, pods, nodes, kinds, seed
        )
    return decisions, replay_decisions(events, requests, pods, nodes, decisions, kinds)


def _result(
    seed: int, options: argparse.Namespace, decisions: PlacementDecisions,
    allocation: dict[str, float], fragmented: dict[str, float],
    refused: dict[str, float] | None = None,
) -> OpenbResult:  # fmt: skip
    seconds = decisions.seconds
    rate = round(decisions.placements / seconds) if seconds else 0
    return OpenbResult(
        seed, options.policy, allocation, fragmented, decisions.placements, round(seconds, 4),
        rate, refused or {},
    )  # fmt: skip


def _percent(amounts: npt.NDArray[Any], capacity: int) -> float:
    return round(100 * float(amounts.mean()) / capacity, 3)


def _mean(results: list[OpenbResult]) -> OpenbResult:
    def mean(values: list[float]) -> float:
        return round(sum(values) / len(values), 3)

    def each(tables: list[dict[str, float]]) -> dict[str, float]:
        return {load: mean([table[load] for table in tables]) for load in tables[0]}

    seconds, placements = sum(r.seconds for r in results), sum(r.placements for r in results)
    return OpenbResult(
        "mean",
        results[0].policy,
        each([r.allocation_pct for r in results]),
        each([r.fragmented_pct for r in results]),
        mean([r.placements for r in results]),
        mean([r.seconds for r in results]),
        round(placements / seconds) if seconds else 0,
        each([r.refused_pct for r in results]),
    )


def _json(results: list[OpenbResult]) -> str:
    rows = [asdict(result) for result in results]
    for row in rows:
        if not row["refused_pct"]:
            del row["refused_pct"]
    return "".join(json.dumps(row) + "\n" for row in rows)


def _table(results: list[OpenbResult]) -> str:
    """Allocated and fragmented percent of the GPUs by arrived load."""
    loads = list(results[0].allocation_pct)
    head = f"{'seed':>6} " + " ".join(f"{'at ' + load:>15}" for load in loads) + "   placements/s"
    lines = [f"{results[0].policy}: allocated / fragmented % of the GPUs by load in %", head]
    for r in results:
        cells = (f"{r.allocation_pct[at]:7.2f} /{r.fragmented_pct[at]:6.2f}" for at in loads)
        refused = "".join(f"   refused {value:.2f} %" for value in r.refused_pct.values())
        lines.append(f"{r.seed!s:>6} " + " ".join(cells) + f"   {r.placements_per_s:>12,}{refused}")
    return "\n".join(lines) + "\n"


def _seeds(text: str) -> list[int]:
    """ "42-51", "7" or "1,5,9-12"."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise argparse.ArgumentTypeError(f"{text!r} is no list of seeds such as 42-51")
        seeds += range(int(first), int(last or first) + 1)
    if not 0 < len(seeds) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} names no seeds, or more than 10,000")
    return seeds


def _loads(text: str) -> list[int]:
    loads = [_load(part) for part in text.split(",")]
    if max(loads) > 100 * INFLATE_TO:
        raise argparse.ArgumentTypeError(f"loads go up to {100 * INFLATE_TO:.0f}")
    return loads


def _load(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) <= 1_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no load in percent")
    return int(text)
