"""The planner on a published cluster and its pods (openb: Alibaba's GPU trace of 2023, Apache-2.0).

A slice of both, whole GPUs only. The data stand beside the repository; without them this file is
skipped, and says so. The planner cases there are the parallelism advisor's and ask no placement.
"""

import csv
import gzip
from functools import cache
from pathlib import Path

import pytest

from scheduler.core.model.policy import BackfillMode, OrderMode
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.placement.feasibility import infeasible_reason
from tests.support.snapshots import a_cluster, a_gpu, a_job, a_node, plan_of

OPENB = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "openb"
NODES, PODS = OPENB / "openb_node_list_gpu_node.csv", OPENB / "openb_pod_list_gpuspec10.csv.gz"
if not (NODES.is_file() and PODS.is_file()):
    pytest.skip("the openb trace is not beside the repository", allow_module_level=True)


@cache
def world():
    """Every 60th node, the first 150 pods with one whole GPU, and every pod with several."""
    with NODES.open() as lines:
        nodes = [_node(row) for row in list(csv.DictReader(lines))[::60]]
    with gzip.open(PODS, "rt") as lines:
        rows = [r for r in csv.DictReader(lines) if r["num_gpu"] > "0" and r["gpu_milli"] == "1000"]
    single = [row for row in rows if row["num_gpu"] == "1"]
    several = [row for row in rows if row["num_gpu"] != "1"]
    jobs = [_job(number, row) for number, row in enumerate([*single[:150], *several], 1)]
    return a_cluster(*nodes, jobs=jobs)


def _node(row):
    cpu, memory = int(row["cpu_milli"]), int(row["memory_mib"])
    return a_node(
        *[a_gpu(board=row["model"])] * int(row["gpu"]),
        name=row["sn"],
        cpu_free_milli=cpu,
        cpu_total_milli=cpu,
        memory_free_mib=memory,
        memory_total_mib=memory,
    )


def _job(number, row):
    return a_job(
        str(number),
        gpus=int(row["num_gpu"]),
        models=tuple(row["gpu_spec"].split("|")) if row["gpu_spec"] else (),
        cpu_milli=int(row["cpu_milli"]),
        memory_mib=int(row["memory_mib"]),
        queued_at=int(row["creation_time"]),
    )


def in_turn(snapshot):
    return sorted(snapshot.jobs, key=lambda job: (job.queued_at, int(job.id)))


def test_every_pod_in_its_turn_starts_exactly_when_a_node_has_room_for_it():
    snapshot, plan = world(), plan_of(world(), order=OrderMode.FIFO, backfill=BackfillMode.SKIP)
    node_of = {place.job: place.replicas[0].node for place in plan.placements}
    free = {n.id: [len(n.gpus), n.cpu_free_milli, n.memory_free_mib] for n in snapshot.nodes}
    models = {n.id: n.gpus[0].board for n in snapshot.nodes}

    def has_room(name, job):
        gpus, cpu, memory = free[name]
        allowed = not job.device.models or models[name] in job.device.models
        enough = gpus >= job.device.gpus and cpu >= job.cpu_milli and memory >= job.memory_mib
        return allowed and enough

    for job in in_turn(snapshot):
        assert (job.id in node_of) == any(has_room(name, job) for name in free), job.id
        if job.id in node_of:
            left = free[node_of[job.id]]
            assert has_room(node_of[job.id], job)
            left[:] = (
                left[0] - job.device.gpus,
                left[1] - job.cpu_milli,
                left[2] - job.memory_mib,
            )


def test_no_gpu_is_given_twice_and_the_rest_of_the_queue_is_told_why():
    snapshot, plan = world(), plan_of(world(), order=OrderMode.FIFO, backfill=BackfillMode.SKIP)
    given = [device.gpu for place in plan.placements for device in place.replicas[0].devices]
    assert len(given) == len(set(given)) > 30
    held = {hold.job: hold.reason for hold in plan.deferrals}
    assert len(held) + len(plan.placements) == len(snapshot.jobs)
    for job in snapshot.jobs:
        if job.id in held:
            refused = infeasible_reason(job, snapshot) is not None
            assert (held[job.id].code is ReasonCode.IMPOSSIBLE) == refused
