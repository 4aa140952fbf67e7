"""`python -m tests.benchmarks.placements [FOLDER]`: what one placement costs, by number of nodes.

Prints one JSON object a size and a last one with the ratios. Nodes and requests are openb's (of
FOLDER, or ../shared/data/openb), drawn again or left out to come to each size; more work arrives
than the nodes can take. `anchor_us` is one plain best-fit scan of all nodes, compiled, in the same
run: what a placement costs without tables. Processor time; the fastest of PLACEMENTS_ROUNDS (3)
rounds counts.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from numba import njit

from scheduler.core.packing.engine import PackingEngine
from scheduler.core.packing.kinds import NodeRoom
from scheduler.core.packing.tables import ClusterExtent, hole_values_of_mix
from scheduler.core.packing.thousandths import ThousandthsGeometry
from scheduler.core.packing.weights import FILLING, STEADY, ScoreWeights
from scheduler.replay.openb_data import Ints, TraceCluster, TracePods, read_cluster, read_pods

SIZES = (100, 300, 1_213, 3_000, 10_000)
MOST = 20_000  # placements timed at each size
BESIDE = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "openb"


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else BESIDE
    if not folder.exists():
        print(f"{folder} has no openb trace; give its folder", file=sys.stderr)
        return 2
    cluster = read_cluster(folder / "openb_node_list_gpu_node.csv")
    pods = read_pods(folder / "openb_pod_list_default.csv.gz", cluster.models)
    rounds = int(os.environ.get("PLACEMENTS_ROUNDS", "3"))
    once(cluster, pods, 50, FILLING)
    anchor(cluster, 50)
    rows = []
    for size in SIZES:
        filling = min(once(cluster, pods, size, FILLING) for _ in range(rounds))
        steady = min(once(cluster, pods, size, STEADY) for _ in range(rounds))
        plain = min(anchor(cluster, size) for _ in range(rounds))
        rows.append(
            {
                "nodes": size,
                "filling_us": round(filling, 2),
                "steady_us": round(steady, 2),
                "anchor_us": round(plain, 2),
                "filling_per_s": round(1e6 / filling),
                "steady_per_s": round(1e6 / steady),
                "filling_beside_anchor": round(filling / plain, 2),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    first, last = rows[0], rows[-1]
    growth = {key: round(last[key] / first[key], 2) for key in ("filling_us", "steady_us")}
    print(json.dumps({"nodes_grow": SIZES[-1] / SIZES[0], "cost_grows": growth}))
    return 0


def drawn(cluster: TraceCluster, size: int) -> tuple[NodeRoom, ...]:
    """`size` nodes: every node as often as possible, the rest at random."""
    random = np.random.default_rng(1)
    count = len(cluster.nodes)
    orders = [random.permutation(count) for _ in range(-(-size // count))]
    return cluster.nodes_in_order(np.concatenate(orders)[:size])


def once(cluster: TraceCluster, pods: TracePods, size: int, weights: ScoreWeights) -> float:
    """Microseconds a placement, all that the engine does for it."""
    nodes, mix = drawn(cluster, size), pods.mix()
    by_model = np.bincount(
        [node.model for node in nodes], [len(node.states) for node in nodes], len(cluster.models)
    )
    full = cluster.extent
    models = tuple(int(gpus) for gpus in by_model)
    extent = ClusterExtent(full.cpu_milli, full.memory_mib, full.max_gpus_per_node, models)
    engine = PackingEngine(
        nodes, extent, ThousandthsGeometry(tuple(hole_values_of_mix(mix))), mix, weights
    )
    arrivals = np.random.default_rng(2).integers(len(pods.kind), size=min(MOST, 6 * size))
    numbers = [engine.kind_number(pods.kinds[pods.kind[pod]]) for pod in arrivals]
    placed, started = 0, time.process_time_ns()
    for number in numbers:
        choice = engine.best_choice(number)
        if choice is not None:
            engine.place(number, choice)
            placed += 1
    return (time.process_time_ns() - started) / 1e3 / placed


@njit()
def scan(free: Ints, idle: Ints, cpu: int, memory: int, milli: int) -> int:
    """The number of the node with least left that fits."""
    best, found = np.inf, -1
    for n in range(free.shape[0]):
        if free[n, 0] < cpu or free[n, 1] < memory:
            continue
        total, fits = 0, False
        for g in range(idle.shape[1]):
            total += idle[n, g]
            fits |= idle[n, g] >= milli
        left = 0.5 * (free[n, 0] - cpu) / 128_000 + 0.5 * (total - milli) / 8_000
        if fits and left < best:
            best, found = left, n
    return found


def anchor(cluster: TraceCluster, size: int) -> float:
    """Microseconds a plain scan of all nodes."""
    nodes = drawn(cluster, size)
    free = np.array([(node.cpu_milli, node.memory_mib) for node in nodes])
    idle = np.zeros((size, cluster.extent.max_gpus_per_node), np.int64)
    for n, node in enumerate(nodes):
        idle[n, : len(node.states)] = np.array(node.states, np.int64)
    scan(free, idle, 1, 1, 1)
    started = time.process_time_ns()
    for _ in range(500):
        scan(free, idle, 4_000, 1_024, 500)
    return (time.process_time_ns() - started) / 1e3 / 500


if __name__ == "__main__":
    sys.exit(main())
