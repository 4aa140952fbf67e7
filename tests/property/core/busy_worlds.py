"""Random clusters of whole GPUs, most of them held by jobs that end, and policies to plan with."""

import random
from dataclasses import replace

from scheduler.core.model.policy import BackfillMode, OrderMode, Policy, PreemptionMode
from scheduler.core.model.snapshot import OwnerView, Priority
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.snapshots import NOW

# Not under preemption by order: there a running job stands elsewhere than the pass that started it
# reckoned (docs/scheduling-time.md), so that a second pass may decide more.
POLICIES = {
    "default": Policy(),
    "strict": Policy(
        order=OrderMode.FIFO, backfill=BackfillMode.NONE, preemption=PreemptionMode.OFF
    ),
    "first come": Policy(order=OrderMode.FIFO, preemption=PreemptionMode.OFF),
    "skip": Policy(backfill=BackfillMode.SKIP, preemption=PreemptionMode.OFF),
    "conservative": Policy(backfill=BackfillMode.CONSERVATIVE, preemption=PreemptionMode.OFF),
    "smallest": Policy(order=OrderMode.SMALLEST),
}


def a_world(number, *, owners=False):
    """Up to four nodes, most of them busy, and up to nine jobs that wait, some of them gangs."""
    draw = random.Random(number)
    sizes = [draw.choice([2, 4]) for _ in range(draw.randint(1, 4))]
    running, key = [], 900
    for node, size in enumerate(sizes, 1):
        free = list(range(size))
        while free and draw.random() < 0.6:
            gpus = [f"n{node}/{free.pop(0)}" for _ in range(draw.randint(1, len(free)))]
            job = waiting(
                str(key),
                gpus=len(gpus),
                time_limit_seconds=draw.randint(30, 90) * 100,
                preemptible=draw.random() < 0.7,
                priority=draw.choice(list(Priority)),
            )
            running.append(a_run(job, *gpus, since=draw.choice([100, 2_000])))
            key += 1
    jobs = [
        waiting(
            str(number),
            gpus=draw.choice([1, 1, 2, 3, 4]),
            replicas=draw.choice([1, 1, 1, 2]),
            time_limit_seconds=draw.randint(1, 80) * 100,
            queued_at=NOW - draw.randint(0, 5),
            priority=draw.choice(list(Priority)),
            project=draw.choice("pq"),
            user=draw.choice("uv"),
        )
        for number in range(1, draw.randint(3, 10))
    ]
    keys = [(p, u) for p in "pq" for u in ("", "u", "v")] if owners else []
    shares = tuple(OwnerView(*key, 1, draw.randint(0, 10**10)) for key in keys)
    return replace(a_busy_cluster(sizes, running=running, jobs=jobs), owners=shares)
