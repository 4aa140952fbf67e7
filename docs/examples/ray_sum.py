"""The distributed sum as a Ray program, for launcher ray: `ray_sum.py [--nodes N] [--fail]`.

It runs in rank 0, as the driver of a cluster of all replicas, and ends with one line of JSON.
"""

import argparse
import json
import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Affinity

ELEMENTS = 4_096


@ray.remote  # type: ignore[untyped-decorator,unused-ignore]
def part(first: int, last: int) -> tuple[int, str]:
    """The sum of some numbers, and the node that added them up."""
    return sum(range(first, last)), ray.get_runtime_context().get_node_id()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1, help="of the cluster that it expects")
    parser.add_argument("--fail", action="store_true", help="end with 3")
    given = parser.parse_args()
    # RAY_ADDRESS names the cluster.
    ray.init(log_to_driver=False)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    if given.fail:
        return 3
    on = [part.options(scheduling_strategy=Affinity(node, soft=False)) for node in nodes]
    parts = ray.get([at.remote(n * ELEMENTS, (n + 1) * ELEMENTS) for n, at in enumerate(on)])
    right = sum(number for number, _ in parts) == sum(range(len(nodes) * ELEMENTS))
    used = {node for _, node in parts}
    result = {"event": "result", "nodes": len(nodes), "used": len(used), "sum_ok": right}
    print(json.dumps(result), flush=True)
    return 0 if right and len(nodes) == given.nodes else 1


if __name__ == "__main__":
    sys.exit(main())
