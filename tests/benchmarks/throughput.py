"""`make bench-throughput`: whole jobs a second and what each costs, beside a bare spawn and Slurm.

PostgreSQL, Redis, one worker and two web processes, one of them for agents, on this machine; 4
nodes x 8 GPUs on the simulated driver. Prints one JSON object. Runs, each on an idle cluster:

- `alone`: one job at a time on real agents (submit and start times);
- `real`: real agents, jobs submitted one by one by 4 clients;
- `submitted`, `bulk`, `queued`: coroutine agents; jobs submitted one by one, many in one call, or
  in the queue already.

A job is one GPU, one replica, and a program that prints a line and sleeps. `broken` names what an
invariant found after a run; it should be empty everywhere. How figures are defined:
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.control_plane.bare_spawn import bare_spawn
from tests.benchmarks.control_plane.cluster import Cluster, Servers, running_servers
from tests.benchmarks.control_plane.measured_run import (
    Refused,
    one_at_a_time,
    queued_at_once,
    submitted_by,
)
from tests.benchmarks.control_plane.slurm import slurm_figures
from tests.benchmarks.latency import machine

RUNS = ("alone", "real", "submitted", "bulk", "queued")
# The figures of the issue, each from the run that shows it.
HEADLINES = {
    "jobs_per_s": ("real", "jobs_per_s"),
    "submitted_jobs_per_s": ("submitted", "jobs_per_s"),
    "bulk_jobs_per_s": ("bulk", "jobs_per_s"),
    "queued_jobs_per_s": ("queued", "jobs_per_s"),
    "submit_p50_ms": ("alone", "submit_ms", "p50"),
    "submit_to_start_p50_ms": ("alone", "submit_to_start_ms", "p50"),
    "gpu_idle_p50_ms": ("queued", "refill_ms", "idle", "p50"),
    "gpu_idle_p90_ms": ("queued", "refill_ms", "idle", "p90"),
    "real_gpu_idle_p50_ms": ("real", "refill_ms", "idle", "p50"),
    "real_gpu_idle_p90_ms": ("real", "refill_ms", "idle", "p90"),
    "sql_per_job": ("queued", "sql_per_job"),
    "transactions_per_job": ("queued", "transactions_per_job"),
    "events_per_job": ("queued", "events_per_job"),
    "cpu_ms_per_job": ("real", "cpu_ms_per_job"),
}


def main() -> int:
    options = _parser().parse_args()
    wanted = [name for name in RUNS if name in options.runs.split(",")]
    slots = options.nodes * options.gpus
    with tempfile.TemporaryDirectory(prefix="tessera-throughput-") as name:
        folder = Path(name)
        spawn = partial(bare_spawn, options.jobs, slots, options.seconds, folder)
        before = spawn()
        runs: dict[str, Any] = {}
        with running_servers() as servers:
            for coroutines in (False, True):
                runs |= _runs(options, wanted, servers, folder, coroutines=coroutines)
        bare = {"before": before, "after": spawn()}
    slurm = slurm_figures(options.jobs, slots, options.submitters, options.seconds)
    found = {
        **{name: _found(runs, path) for name, path in HEADLINES.items()},
        "bare_spawn": bare,
        "slurm": slurm,
        "broken": {name: run["broken"] for name, run in runs.items() if run.get("broken")},
        "settings": vars(options),
        "machine": machine(),
        "runs": runs,
    }
    print(json.dumps(found, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-throughput ARGS=…", description=__doc__)
    parser.add_argument("--jobs", type=int, default=400, help="of each run (%(default)s)")
    parser.add_argument("--alone", type=int, default=30, help="of the run alone (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.2, help="of a job (%(default)s)")
    parser.add_argument("--submitters", type=int, default=4, help="clients (%(default)s)")
    parser.add_argument("--nodes", type=int, default=4, help="(%(default)s)")
    parser.add_argument("--gpus", type=int, default=8, help="of a node (%(default)s)")
    parser.add_argument("--runs", default=",".join(RUNS), help="which of them (%(default)s)")
    return parser


def _runs(
    options: argparse.Namespace,
    wanted: list[str],
    servers: Servers,
    folder: Path,
    *,
    coroutines: bool,
) -> dict[str, Any]:
    """Those on agents of one kind, on one cluster."""
    own = [name for name in wanted if (name in ("submitted", "bulk", "queued")) == coroutines]
    if not own:
        return {}
    var = folder / ("coroutines" if coroutines else "agents")
    size = {"nodes": options.nodes, "gpus": options.gpus, "run_seconds": options.seconds}
    with Cluster(servers, var, coroutines=coroutines, **size) as cluster:
        return {name: _run(name, cluster, options) for name in own}


def _run(name: str, cluster: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    jobs, seconds = options.jobs, options.seconds
    try:
        match name:
            case "alone":
                return one_at_a_time(cluster, options.alone, seconds)
            case "queued":
                return queued_at_once(cluster, jobs).summary
            case "bulk":
                return submitted_by(cluster, jobs, seconds, bulk=jobs).summary
            case _:
                return submitted_by(cluster, jobs, seconds, clients=options.submitters).summary
    except Refused as refused:
        return {"jobs_per_s": None, "reason": str(refused)}


def _found(runs: dict[str, Any], path: tuple[str, ...]) -> Any:
    """The figure at the path; None if its run was left out or shows none."""
    value: Any = runs
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


if __name__ == "__main__":
    sys.exit(main())
