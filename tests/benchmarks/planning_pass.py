"""How long one planning pass takes on 1,213 nodes with 6,212 GPUs, as JSON: 10,000 jobs wait while
every GPU is held by running work (the usual pass of a busy cluster), while a tenth of it is free,
and while the cluster is empty.

Usage: python -m tests.benchmarks.planning_pass [--jobs N] [--share PART]
"""

import argparse
import gc
import json
import random
import time
from dataclasses import replace
from typing import Any

from agents.contract.boards import known_boards
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import (
    ClusterSnapshot,
    DeviceRequest,
    GpuView,
    Isolation,
    NodeView,
    OwnerView,
    Priority,
    QuotaView,
    RunningJob,
    SliceView,
    WaitingJob,
)
from scheduler.core.plan import plan

NOW = 1_000_000
# As many GPUs to a node, and as often, as in Alibaba's openb (1,213 nodes with 6,212 GPUs).
SIZES = [8] * 617 + [4] * 54 + [2] * 518 + [1] * 24
BOARDS = ("H200-141GB", "A100-SXM4-80GB", "L40S-48GB")
# Percent of a GPU: the shares that openb's pods ask for most.
SHARES = (81, 46, 25, 50, 20)
PROFILES = ("1g.18gb", "2g.35gb", "3g.71gb", "1g.10gb", "3g.40gb")
PROJECTS, USERS = 40, 5


def a_cluster(share: float, held: float) -> tuple[list[NodeView], list[RunningJob]]:
    """Nodes, of whose GPUs this part is held whole by running jobs of one GPU or a node."""
    draw = random.Random(11)
    known = [known_boards()[key] for key in BOARDS if key in known_boards()]
    sizes = SIZES * int(max(1, share)) if share > 1 else SIZES[:: round(1 / share)]
    nodes, running = [], []
    for number, gpus in enumerate(sizes):
        board, name = known[number % len(known)], f"n{number:05}"
        is_held = draw.random() < held
        views = []
        for index in range(gpus):
            key = f"{name}/{index}"
            slices: tuple[SliceView, ...] = ()
            if is_held:
                slices = (
                    SliceView(f"{key}/s", SliceKind.GPU, "", 0, board.memory_slices, True, True),
                )
            product = board.product_names[0]
            whole = GpuMode.WHOLE
            views.append(
                GpuView(
                    key,
                    index,
                    board.key,
                    product,
                    board.memory_mib,
                    whole,
                    True,
                    slices,
                    index // 4,
                )
            )
        cpu, memory = 12_000 * gpus, 98_304 * gpus
        free = (0, 0) if is_held else (cpu, memory)
        nodes.append(
            NodeView(name, name, True, "f", *free, cpu, memory, tuple(views), share_clients=48)
        )
        if is_held:
            running += _running(nodes[-1], draw)
    return nodes, running


def _running(node: NodeView, draw: random.Random) -> list[RunningJob]:
    """One job for the whole node, or one for each GPU."""
    groups = [node.gpus] if draw.random() < 0.3 else [(gpu,) for gpu in node.gpus]
    found: list[RunningJob] = []
    for group in groups:
        devices = tuple(
            DevicePlacement(g.id, SliceKind.GPU, "", 0, 8, UNITS_PER_GPU, g.memory_mib, f"{g.id}/s")
            for g in group
        )
        job = a_job(10**6 + len(found), draw, DeviceRequest(gpus=len(group)))
        job = WaitingJob(
            id=f"r{group[0].id}", name=job.name, project=job.project, user=job.user,
            priority=job.priority, queued_at=NOW - 90_000, replicas=1, device=job.device,
            cpu_milli=12_000 * len(group), memory_mib=98_304 * len(group),
            time_limit_seconds=draw.choice((14_400, 86_400, 604_800)),
        )  # fmt: skip
        place = ReplicaPlacement(0, node.id, devices)
        found.append(RunningJob(job, (place,), NOW - draw.randrange(14_000)))
    return found


def a_job(number: int, draw: random.Random, device: DeviceRequest | None = None) -> WaitingJob:
    return WaitingJob(
        id=str(number),
        name=f"job-{number}",
        project=f"p{draw.randrange(PROJECTS)}",
        user=f"u{draw.randrange(USERS)}",
        priority=draw.choice((Priority.LOW, Priority.NORMAL, Priority.NORMAL, Priority.HIGH)),
        queued_at=NOW - draw.randrange(100_000),
        replicas=draw.choice((1,) * 19 + (4,)),
        device=device or _device(draw),
        cpu_milli=draw.choice((2_000, 4_000, 8_000)),
        memory_mib=draw.choice((4_096, 16_384)),
        time_limit_seconds=draw.choice((3_600, 14_400, 86_400)),
    )


def _device(draw: random.Random) -> DeviceRequest:
    """As often as in openb's default list: shares 38 %, one GPU 59 %, several 1 %; a part of the
    shares as MIG slices."""
    kind = draw.random()
    if kind < 0.2:
        threads = draw.choice(SHARES)
        return DeviceRequest(
            mps_threads=threads, mps_memory_mib=threads * 200, isolation=Isolation.ANY
        )
    if kind < 0.4:
        return DeviceRequest(mig=draw.choice(PROFILES))
    return DeviceRequest(gpus=1 if kind < 0.98 else draw.choice((2, 4, 8)))


def a_snapshot(jobs: int, share: float, held: float) -> ClusterSnapshot:
    draw = random.Random(7)
    nodes, running = a_cluster(share, held)
    quotas = tuple(QuotaView(f"p{i}", "", 10_000 * UNITS_PER_GPU, 0) for i in range(PROJECTS))
    waiting = tuple(a_job(i + 1, draw) for i in range(jobs))
    return ClusterSnapshot(NOW, tuple(nodes), waiting, quotas, tuple(running))


def an_array(jobs: int, share: float, cap: int) -> ClusterSnapshot:
    """The busy cluster, where one more array waits: as many of its members run as may."""
    snapshot = a_snapshot(0, share, 1.0)
    draw = random.Random(13)
    first = replace(a_job(1, draw, DeviceRequest(gpus=1)), array=1, array_cap=cap, replicas=1)
    waiting = tuple(replace(first, id=str(number + 1)) for number in range(jobs))
    held = tuple(
        replace(run, job=replace(run.job, array=1, array_cap=cap)) for run in snapshot.running[:cap]
    )
    return replace(snapshot, jobs=waiting, running=held + snapshot.running[cap:])


def scan_seconds(snapshot: ClusterSnapshot) -> float:
    """The anchor: for every waiting job one look at the CPU of every node, in plain Python."""
    free = [node.cpu_free_milli for node in snapshot.nodes]
    start = time.perf_counter()
    for job in snapshot.jobs:
        sum(1 for cpu in free if cpu >= job.cpu_milli)
    return time.perf_counter() - start


def a_burst(jobs: int, share: float, owners: int) -> ClusterSnapshot:
    """An empty cluster, and equal jobs of one GPU that these owners submitted at once."""
    nodes, _ = a_cluster(share, 0.0)
    waiting = tuple(
        WaitingJob(
            id=str(number + 1),
            name=f"job-{number}",
            project=f"p{number % owners // USERS}",
            user=f"u{number % USERS if owners > 1 else 0}",
            priority=Priority.NORMAL,
            queued_at=NOW - 60,
            replicas=1,
            device=DeviceRequest(gpus=1),
            cpu_milli=4_000,
            memory_mib=16_384,
            time_limit_seconds=3_600,
        )
        for number in range(jobs)
    )
    owned = {(job.project, user) for job in waiting for user in ("", job.user)}
    shares = tuple(OwnerView(*owner, 1, 0) for owner in sorted(owned))
    return ClusterSnapshot(NOW, tuple(nodes), waiting, (), (), owners=shares)


def timed(snapshot: ClusterSnapshot) -> dict[str, Any]:
    anchor = scan_seconds(snapshot)
    start, used = time.perf_counter(), time.process_time()
    gc.disable()  # As the production task does.
    found = plan(snapshot, Policy())
    gc.enable()
    seconds, used = time.perf_counter() - start, time.process_time() - used
    return {
        "nodes": len(snapshot.nodes),
        "gpus": sum(len(n.gpus) for n in snapshot.nodes),
        "running": len(snapshot.running),
        "waiting": len(snapshot.jobs),
        "placed": len(found.placements),
        "seconds": round(seconds, 3),
        "processor_seconds": round(used, 3),
        "plain_scan_seconds": round(anchor, 3),
        "ratio": round(seconds / anchor, 2) if snapshot.jobs else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=1.0, help="of the 1,213 nodes")
    parser.add_argument("--burst", type=int, default=5_000, help="jobs submitted at once")
    parser.add_argument("--members", type=int, default=1_000, help="of an array, 10 at once")
    options = parser.parse_args()
    plan(a_snapshot(200, 0.05, 0.5), Policy())  # what is compiled or tabled once
    for held in (1.0, 0.9, 0.0):
        row = timed(a_snapshot(options.jobs, options.share, held))
        print(json.dumps({"held": held} | row), flush=True)
    for members in (0, options.members):
        row = timed(an_array(members, options.share, 10))
        print(json.dumps({"members_of_an_array": members} | row), flush=True)
    many = timed(a_burst(options.burst, options.share, PROJECTS * USERS))
    print(json.dumps({"burst_of_owners": PROJECTS * USERS} | many), flush=True)
    one = timed(a_burst(options.burst, options.share, 1))
    beside = one["processor_seconds"] / max(1e-3, many["processor_seconds"])
    print(json.dumps({"burst_of_owners": 1} | one | {"beside_many": round(beside, 2)}), flush=True)


if __name__ == "__main__":
    main()
