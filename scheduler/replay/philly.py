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

from agents.contract.boards import Board, known_boards
from agents.contract.documents import GpuMode
from scheduler.core.forecast.evaluation import ForecastEvaluation
from scheduler.core.model.decisions import Plan
from scheduler.core.model.policy import DAY, BackfillMode, OrderMode, Policy, PreemptionMode
from scheduler.core.model.snapshot import (
    ClusterSnapshot,
    DeviceRequest,
    GpuView,
    NodeView,
    Priority,
    WaitingJob,
)
from scheduler.replay.errors import ReplayError
from scheduler.replay.philly_data import TraceJob, read_trace, sample_limits
from scheduler.virtual.simulation import Simulation, SimulationObserver
from scheduler.virtual.values import PreemptionCosts, RecordedJob, RecordedWindow, Scenario

BOARD = "H100-80GB"
_ORACLE = Policy(
    preemption=PreemptionMode.ORDER,
    backfill=BackfillMode.SKIP,
    hysteresis=1.0,
    protection_seconds=0,
    moves=64,
)
POLICIES = {
    "tessera": Policy(preemption=PreemptionMode.OFF),
    "fifo": Policy(order=OrderMode.FIFO, backfill=BackfillMode.NONE, preemption=PreemptionMode.OFF),
    "easy": Policy(order=OrderMode.FIFO, backfill=BackfillMode.EASY, preemption=PreemptionMode.OFF),
    "sjf": Policy(
        order=OrderMode.SHORTEST, backfill=BackfillMode.EASY, preemption=PreemptionMode.OFF
    ),
    "srtf": replace(_ORACLE, order=OrderMode.SHORTEST),
    "srsf": replace(_ORACLE, order=OrderMode.SMALLEST),
}
ORACLES = ("srtf", "srsf")
# As the papers count it: a stopped job queues anew with what it has done; a job that moves goes on
# at once, so its next protected time is no longer than this one.
PREEMPTION_COSTS = PreemptionCosts(
    keeps_place=False, moves_extend_protection=False, recheck_seconds=360
)
# With --preemption on. A bypassed job stops others when it is due: nothing idles for a reservation
# (EASY costs 15 % on trace3). Every job of these traces can restart and move: a gang of whole nodes
# moves many small ones at once.
PREEMPTION_POLICY: dict[str, Any] = {
    "preemption": PreemptionMode.ORDER,
    "backfill": BackfillMode.SKIP,
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
        help="tessera and easy: estimate the start of every Nth waiting job; 0 = none",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(options: argparse.Namespace) -> int:
    """Raises ReplayError."""
    began = time.monotonic()
    _check(options)
    trace = read_trace(options.trace)
    _check_size(trace, options.nodes, options.gpus_per_node)
    limits = "true" if options.policy in ORACLES else options.limits
    window = recorded_window(
        trace, sample_limits(trace, limits, options.seed), options.gpus_per_node
    )
    policy = POLICIES[options.policy]
    if options.policy == "tessera" and options.preemption == "on":
        policy = replace(policy, **PREEMPTION_POLICY)
    nodes = whole_nodes(options.nodes, options.gpus_per_node, known_boards()[BOARD])
    asks = options.forecasts if options.policy in ("tessera", "easy") else 0
    evaluation = ForecastEvaluation(policy, every=asks, seed=options.seed) if asks else None
    simulation = Simulation(
        Scenario(nodes, policy=policy),
        window,
        costs=replace(PREEMPTION_COSTS, restart_seconds=options.restart_cost),
        observer=ForecastObserver(evaluation) if evaluation else None,
    )
    with tqdm(total=len(window.jobs), unit="job", disable=not sys.stderr.isatty()) as bar:
        simulation.run(bar.update)
    result = {
        "trace": options.trace.stem,
        "policy": options.policy,
        "limits": limits,
        "preemption": "on" if policy.preemption is PreemptionMode.ORDER else "off",
        "seed": options.seed,
        **summary(simulation),
        **(evaluation.summary() if evaluation else {}),
        "passes": simulation.passes,
        "seconds": round(time.monotonic() - began, 2),
    }
    print_result(result, as_json=options.json)
    return 0


class ForecastObserver(SimulationObserver):
    """Passes the events of a simulation on to a ForecastEvaluation."""

    def __init__(self, evaluation: ForecastEvaluation) -> None:
        self._evaluation = evaluation
        self._submitted: set[str] = set()

    def on_pass(self, snapshot: ClusterSnapshot, plan: Plan) -> None:
        for job in snapshot.jobs:
            if job.id not in self._submitted:
                self._submitted.add(job.id)
                self._evaluation.on_submit(job, snapshot, plan)
        self._evaluation.on_pass(snapshot, plan)

    def on_start(self, job: WaitingJob, now: int) -> None:
        self._evaluation.on_start(job, now)

    def on_end(self, job: WaitingJob, now: int, ran_seconds: int) -> None:
        self._evaluation.on_end(job, now, ran_seconds)


def recorded_window(
    trace: Sequence[TraceJob], limits: list[int] | None, gpus_per_node: int
) -> RecordedWindow:
    """The trace's jobs as the planner sees them, with their durations. Without limits each has the
    site's maximum, longer than any duration."""
    longest = 2 * max(job.seconds for job in trace)
    stated = limits or [longest] * len(trace)
    jobs = (
        RecordedJob(_job(job, limit, limits is not None, gpus_per_node), job.seconds)
        for job, limit in zip(trace, stated, strict=True)
    )
    times = [job.submitted_at for job in trace]
    return RecordedWindow(min(times), max(times), tuple(jobs))


def whole_nodes(nodes: int, gpus: int, board: Board) -> tuple[NodeView, ...]:
    """Equal nodes of whole GPUs, with ample CPU and memory."""
    return tuple(_node(f"n{number:05d}", gpus, board) for number in range(nodes))


def summary(simulation: Simulation) -> dict[str, float]:
    """Averages over all jobs, in seconds; waits count every second that a job did not run."""
    outcomes = list(simulation.outcomes.values())
    submitted = [outcome.recorded.job.queued_at for outcome in outcomes]
    ended = [outcome.ended_at for outcome in outcomes]
    turnaround = np.array(ended, dtype=float) - np.array(submitted)
    waits = turnaround - np.array([outcome.recorded.ran_seconds for outcome in outcomes])
    return {
        "avg_jct_s": round(float(turnaround.mean()), 1),
        "p99_jct_s": round(float(np.percentile(turnaround, 99)), 1),
        "makespan_s": max(ended) - min(submitted),
        "avg_wait_s": round(float(waits.mean()), 1),
        "longest_wait_s": round(float(waits.max()), 1),
        "preemptions": sum(outcome.stops for outcome in outcomes),
    }


def print_result(result: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    for key, value in result.items():
        sys.stdout.write(f"{key:16} {value}\n")


def _check(options: argparse.Namespace) -> None:
    bounds = {
        "nodes": (1, 10_000),
        "gpus_per_node": (1, 16),
        "restart_cost": (0, 86_400),
        "seed": (0, 2**32 - 1),
        "forecasts": (0, 1_000_000),
    }
    for name, (least, most) in bounds.items():
        if not least <= getattr(options, name) <= most:
            raise ReplayError(f"--{name.replace('_', '-')}: from {least} to {most}")


def _check_size(trace: Sequence[TraceJob], nodes: int, gpus_per_node: int) -> None:
    """A gang of whole nodes takes all their GPUs."""
    needed = max(-(-job.gpus // gpus_per_node) for job in trace)
    if needed > nodes:
        largest = max(job.gpus for job in trace)
        sentence = f"the largest job asks for {largest} GPUs, which are {needed} whole nodes"
        raise ReplayError(f"--nodes {nodes}: {sentence}. Give at least {needed}")


def _node(name: str, gpus: int, board: Board) -> NodeView:
    own = tuple(
        GpuView(
            id=f"{name}/{index}",
            index=index,
            board=board.key,
            product_name=board.product_names[0],
            memory_mib=board.memory_mib,
            mode=GpuMode.WHOLE,
            healthy=True,
        )
        for index in range(gpus)
    )
    ample = 1_000 * gpus
    return NodeView(name, name, True, "f", ample, ample, ample, ample, own)


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
