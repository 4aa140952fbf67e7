"""`replay philly`: job completion times on Philly-derived traces, by the production planner.

Each policy is one Policy of `scheduler.core`; oracles get the true duration as their limit.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from agents.contract.boards import boards
from scheduler.core.forecast.asking import Forecaster
from scheduler.core.policy import DAY, Backfill, Order, Policy, Preemption
from scheduler.core.values import DeviceRequest, Priority, WaitingJob
from scheduler.replay.philly_data import TraceJob, drawn_limits, read_trace
from scheduler.replay.world import Work, World

BOARD = "H100-80GB"
_ORACLE = Policy(
    preemption=Preemption.ORDER,
    backfill=Backfill.SKIP,
    hysteresis=1.0,
    protection_seconds=0,
    moves=64,
)
POLICIES = {
    "tessera": Policy(preemption=Preemption.OFF),
    "fifo": Policy(order=Order.FIFO, backfill=Backfill.NONE, preemption=Preemption.OFF),
    "easy": Policy(order=Order.FIFO, backfill=Backfill.EASY, preemption=Preemption.OFF),
    "sjf": Policy(order=Order.SHORTEST, backfill=Backfill.EASY, preemption=Preemption.OFF),
    "srtf": replace(_ORACLE, order=Order.SHORTEST),
    "srsf": replace(_ORACLE, order=Order.SMALLEST),
}
ORACLES = ("srtf", "srsf")
# With --preemption on. Who was passed stops others when it is due, so that nothing idles for a
# promise (EASY costs 15 % on trace3); every job of these traces restarts, and may be moved: a gang
# of whole nodes moves many small ones at once.
STOPPING: dict[str, Any] = {
    "preemption": Preemption.ORDER,
    "backfill": Backfill.SKIP,
    "moves": 64,
    "patience_seconds": 30 * DAY,
}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trace", type=Path, required=True, help="CSV of a trace, times in ms")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--gpus-per-node", type=int, default=8)
    parser.add_argument("--policy", choices=sorted(POLICIES), default="tessera")
    parser.add_argument(
        "--limits",
        default="1-5",
        help="stated time limits: none, true, or A-B times the duration",
    )
    parser.add_argument("--preemption", choices=["on", "off"], default="off", help="tessera only")
    parser.add_argument("--restart-cost", type=int, default=30, help="seconds, after the first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--forecasts",
        type=int,
        default=5,
        help="tessera and easy: ask for the start of each so many-th job that waits; 0 = none",
    )
    parser.add_argument("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    began = time.monotonic()
    trace = read_trace(options.trace)
    limits = "true" if options.policy in ORACLES else options.limits
    work = as_work(trace, drawn_limits(trace, limits, options.seed), options.gpus_per_node)
    policy = POLICIES[options.policy]
    if options.policy == "tessera" and options.preemption == "on":
        policy = replace(policy, **STOPPING)
    size = (options.nodes, options.gpus_per_node, boards()[BOARD])
    asks = options.forecasts if options.policy in ("tessera", "easy") else 0
    watch = Forecaster(policy, every=asks, seed=options.seed) if asks else None
    world = World(*size, policy, restart_cost=options.restart_cost, watch=watch)
    with tqdm(total=len(work), unit="job", disable=not sys.stderr.isatty()) as bar:
        world.run(work, bar.update)
    told = {
        "trace": options.trace.stem,
        "policy": options.policy,
        "limits": limits,
        "preemption": "on" if policy.preemption is Preemption.ORDER else "off",
        "seed": options.seed,
        **summary(world),
        **(watch.summary() if watch else {}),
        "passes": world.passes,
        "seconds": round(time.monotonic() - began, 2),
    }
    show(told, as_json=options.json)
    return 0


def as_work(trace: Sequence[TraceJob], limits: list[int] | None, gpus_per_node: int) -> list[Work]:
    """The trace's jobs as the planner sees them, beside their durations. Without limits each has
    the site's maximum, longer than any of them."""
    longest = 2 * max(job.seconds for job in trace)
    stated = limits or [longest] * len(trace)
    return [
        Work(
            _job(job, limit, limits is not None, gpus_per_node),
            job.submitted_at,
            job.seconds,
            job.seconds,
        )
        for job, limit in zip(trace, stated, strict=True)
    ]


def summary(world: World) -> dict[str, float]:
    """Averages over all jobs, in seconds; waits count every second that a job did not run."""
    work = list(world.work.values())
    took = np.array([w.ended_at - w.submitted_at for w in work], dtype=float)
    waits = took - np.array([w.seconds for w in work])
    span = max(w.ended_at for w in work) - min(w.submitted_at for w in work)
    return {
        "avg_jct_s": round(float(took.mean()), 1),
        "p99_jct_s": round(float(np.percentile(took, 99)), 1),
        "makespan_s": span,
        "avg_wait_s": round(float(waits.mean()), 1),
        "longest_wait_s": round(float(waits.max()), 1),
        "preemptions": sum(w.stopped for w in work),
    }


def show(told: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(told) + "\n")
        return
    for key, value in told.items():
        sys.stdout.write(f"{key:16} {value}\n")


def _job(job: TraceJob, limit: int, chosen: bool, gpus_per_node: int) -> WaitingJob:
    """More GPUs than a node has are a gang of whole nodes."""
    replicas = max(1, -(-job.gpus // gpus_per_node))
    return WaitingJob(
        id=job.id,
        name="philly",
        project="philly",
        user="all",
        priority=Priority.NORMAL,
        queued_at=job.submitted_at,
        replicas=replicas,
        device=DeviceRequest(gpus=min(job.gpus, gpus_per_node)),
        cpu_milli=1,
        memory_mib=1,
        time_limit_seconds=limit,
        limit_is_chosen=chosen,
        preemptible=True,
        group="philly",
    )
