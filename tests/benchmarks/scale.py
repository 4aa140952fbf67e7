"""`make bench-scale`: a large cluster on one worker and two web processes, one of them for agents.

1,000 nodes x 8 GPUs as coroutine agents on the real wire; PostgreSQL and Redis on this machine.
Prints one JSON object; the options choose the runs:

- without any, jobs of 5 s come at 20 a second for 60 s: times of reports, submits and placements,
  and the longest wait for a sweep;
- `--burst 5000`: so many jobs at once, one submit a second meanwhile: until all are placed;
- `--restart`: the web process of agents is killed and started again: until every node holds a
  call, and until a new job runs;
- `--minutes 30`: the same for so long: memory of web and worker over time.

How figures are defined: docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.control_plane.cluster import Cluster, running_servers
from tests.benchmarks.control_plane.large_runs import Watch, burst, restart, steady
from tests.benchmarks.latency import machine

# Of the default run.
SECONDS = 60
# One node in ten measures its reports; that is one more call for each of them.
PROBE_EVERY = 10


def main() -> int:
    options = _parser().parse_args()
    size = {"nodes": options.nodes, "gpus": options.gpus, "run_seconds": options.seconds}
    with tempfile.TemporaryDirectory(prefix="tessera-scale-") as folder, running_servers() as own:
        var = Path(folder) / "tessera"
        with Cluster(own, var, coroutines=True, probe_every=PROBE_EVERY, **size) as cluster:
            watch = Watch(cluster)
            found = {"enrolled": watch.until_held()} | _run(watch, options)
    print(json.dumps(found | {"settings": vars(options), "machine": machine()}, indent=1))
    return 0


def _run(watch: Watch, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if options.restart:
        found["restart"] = restart(watch)
    if options.burst:
        found["burst"] = burst(watch, options.burst)
    if options.minutes or not found:
        found["steady"] = steady(watch, options.rate, options.minutes * 60 or SECONDS)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-scale ARGS=…", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000, help="(%(default)s)")
    parser.add_argument("--gpus", type=int, default=8, help="of a node (%(default)s)")
    parser.add_argument("--seconds", type=float, default=5, help="of a job (%(default)s)")
    parser.add_argument("--rate", type=float, default=20, help="submits a second (%(default)s)")
    parser.add_argument("--minutes", type=float, default=0, help="of submits, in place of 60 s")
    parser.add_argument("--burst", type=int, default=0, help="jobs at once")
    parser.add_argument("--restart", action="store_true", help="kill and start the web process")
    return parser


if __name__ == "__main__":
    sys.exit(main())
