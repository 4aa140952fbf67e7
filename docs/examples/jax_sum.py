"""The distributed sum as a JAX program, for launcher jax: `jax_sum.py [--rounds N]`.

The processes of all replicas form one world, on GPUs or on CPUs. Each rank checks every sum and
ends with one line of JSON.
"""

import argparse
import json
import os
import sys

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

ELEMENTS = 4_096


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    # It reads the coordinator from JAX_COORDINATOR_ADDRESS, and these only from its arguments.
    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
    )
    mesh = Mesh(np.array(jax.devices()), ("rank",))
    one_row_each = NamedSharding(mesh, PartitionSpec("rank"))
    sum_of_rows = jax.shard_map(
        lambda row: jax.lax.psum(row, "rank"),
        mesh=mesh,
        in_specs=PartitionSpec("rank"),
        out_specs=PartitionSpec(),
    )
    all_reduce = jax.jit(sum_of_rows)
    rank, world = jax.process_index(), jax.process_count()
    places = [n for n, device in enumerate(mesh.devices.flat) if device.process_index == rank]
    right = True
    for number in range(rounds):
        # Each device contributes its own number in every element, so the sum is known.
        own = [place + number for place in places]
        rows = np.repeat(np.array(own, np.float32)[:, None], ELEMENTS, axis=1)
        values = jax.make_array_from_process_local_data(one_row_each, rows)
        found = np.asarray(all_reduce(values).addressable_data(0))
        expected = sum(range(number, number + mesh.size))
        right = right and bool((found == expected).all())
    result = {"event": "result", "rank": rank, "world": world, "devices": mesh.size}
    print(json.dumps(result | {"allreduce_ok": right, "rounds": rounds}), flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
