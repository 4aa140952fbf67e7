"""First come first served, and EASY backfill, against an independent reference: plain loops over
counts of free GPUs on nodes, and over the times when running work ends.

The plan chooses the node; the reference says at every turn which nodes are right.
"""

import random

import pytest

from scheduler.core.model.policy import BackfillMode, OrderMode
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.snapshots import NOW, plan_of

WORLDS = 1_000


def small_world(number):
    """One to four nodes with up to four GPUs, some running jobs on one node each, and a queue."""
    draw = random.Random(number)
    sizes = [draw.choice([2, 4]) for _ in range(draw.randint(1, 4))]
    running, key = [], 900
    for node, size in enumerate(sizes, 1):
        free = list(range(size))
        while free and draw.random() < 0.75:
            gpus = [f"n{node}/{free.pop(0)}" for _ in range(draw.randint(1, len(free)))]
            job = waiting(str(key), gpus=len(gpus), time_limit_seconds=draw.randint(2, 6) * 100)
            running.append(a_run(job, *gpus, since=draw.choice([0, 100])))
            key += 1
    jobs = [
        waiting(
            str(n),
            gpus=draw.choice([1, 1, 2, 2, 3, 4]),
            time_limit_seconds=draw.randint(1, 8) * 100,
            queued_at=NOW - draw.randint(0, 5),
        )
        for n in range(1, draw.randint(2, 7))
    ]
    return sizes, running, jobs


class Slow:
    """Counts of free GPUs by node now, and who ends when. `places` are the plan's own choices."""

    def __init__(self, sizes, running, places):
        self.free = {f"n{n}": size for n, size in enumerate(sizes, 1)}
        self.sizes, self.places, self.head = dict(self.free), places, None
        self.ends = []
        for run in running:
            for replica in run.replicas:
                self.free[replica.node] -= len(replica.devices)
                self.ends.append((run.ends_at, replica.node, len(replica.devices)))

    def free_at(self, when):
        ended = [(node, gpus) for end, node, gpus in self.ends if end <= when]
        return {
            name: free + sum(gpus for node, gpus in ended if node == name)
            for name, free in self.free.items()
        }

    def right_nodes(self, job):
        """Where the job may start now without delaying the head of the queue."""
        need, end = job.device.gpus, NOW + job.time_limit_seconds
        fitting = [name for name, free in self.free.items() if free >= need]
        if self.head is None or end <= self.head[1]:
            return fitting
        right = []
        for name in fitting:
            then = self.free_at(self.head[1])
            then[name] -= need
            if max(then.values()) >= self.head[0]:
                right.append(name)
        return right

    def start(self, job, name):
        self.free[name] -= job.device.gpus
        self.ends.append((NOW + job.time_limit_seconds, name, job.device.gpus))

    def block(self, job):
        if self.head is None:
            need = job.device.gpus
            times = sorted({end for end, _, _ in self.ends})
            good = [t for t in times if max(self.free_at(t).values()) >= need]
            self.head = (need, good[0])


def agrees(number, backfill):
    sizes, running, jobs = small_world(number)
    jobs = [job for job in jobs if job.device.gpus <= max(sizes)]
    found = plan_of(
        a_busy_cluster(sizes, running=running, jobs=jobs), order=OrderMode.FIFO, backfill=backfill
    )
    places = {p.job: p.replicas[0].node for p in found.placements}
    slow, closed = Slow(sizes, running, places), False
    for job in sorted(jobs, key=lambda j: (j.queued_at, int(j.id))):
        right = [] if closed else slow.right_nodes(job)
        assert (job.id in places) == bool(right), (number, job.id, right, slow.head)
        if right:
            assert places[job.id] in right, (number, job.id)
            slow.start(job, places[job.id])
        elif backfill is BackfillMode.NONE:
            closed = True
        else:
            slow.block(job)
    promised = [r.starts_at for r in found.reservations]
    assert promised == ([slow.head[1]] if slow.head else []), number
    return len(places), len(promised)


@pytest.mark.slow
def test_first_come_first_served_equals_the_slow_reference_on_a_thousand_worlds():
    started = [agrees(number, BackfillMode.NONE)[0] for number in range(WORLDS)]
    assert sum(started) > WORLDS // 2, "the worlds are not trivial"


def test_easy_backfill_equals_the_slow_reference_on_a_thousand_worlds():
    seen = [agrees(number, BackfillMode.EASY) for number in range(WORLDS)]
    assert sum(places for places, _ in seen) > WORLDS
    assert sum(promised for _, promised in seen) > WORLDS // 2
