"""The queue's order against an oracle that keeps one heap of all jobs: slow, but nothing to get
wrong. Same jobs, same ranks, while owners' factors grow between any two of them."""

import heapq
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.policy import OrderMode, Policy
from scheduler.core.model.snapshot import OwnerView, Priority
from scheduler.core.queue.fairshare import ClusterTotals, FairShares
from scheduler.core.queue.order import QueueIterator, QueueOrder, job_sort_key
from tests.support.examples import examples
from tests.support.snapshots import NOW, a_job

BYPASS_LIMIT = 3
many = examples(300)


def one_heap(jobs, order):
    """All jobs in one heap; a job whose key has grown since goes back into it."""
    keys = [order.waiting_key(job) for job in jobs]
    heap = [
        (order.rank(job, key, order.owner_factor(job)), job.queued_at, job_sort_key(job.id), i)
        for i, (job, key) in enumerate(zip(jobs, keys, strict=True))
    ]
    heapq.heapify(heap)
    while heap:
        rank, queued_at, number, index = heap[0]
        job = jobs[index]
        current = order.rank(job, keys[index], order.owner_factor(job))
        if current > rank:
            heapq.heapreplace(heap, (current, queued_at, number, index))
            continue
        heapq.heappop(heap)
        yield job, rank


class GivenWork:
    """Keys as a test gives them, by job."""

    def __init__(self, keys):
        self.keys = keys

    def work(self, job, gpus, now):
        return self.keys[job.id]


class GivenShares:
    """Factors that grow by the steps that a test gives, for any owner that is charged."""

    def __init__(self, factors):
        self.factors = dict(factors)

    def factor(self, project, user):
        return self.factors[project, user]

    def charge(self, project, user, units, cpu_milli, memory_mib, seconds):
        for key in self.factors:
            if key[0] == project:
                own = 1 + seconds / 7 if key[1] == user else 1 + seconds / 1_000
                self.factors[key] = min(64.0, self.factors[key] * own)


class FallingShares(GivenShares):
    """Factors that also fall, as when a running job of the owner is stopped for another one."""

    def charge(self, project, user, units, cpu_milli, memory_mib, seconds):
        for key in self.factors:
            self.factors[key] = max(0.5, self.factors[key] * (1.5 if seconds % 2 else 0.7))


def an_order(mode, shares, keys):
    policy = Policy(order=mode, bypass_limit=BYPASS_LIMIT, patience_seconds=10**20)
    return QueueOrder(policy, NOW, lambda job: float(job.device.gpus), shares, GivenWork(keys))


def sequence(walk, jobs, order, shares, steps):
    """Ids and ranks, with a charge after each job whose step is not 0: it was placed."""
    found = []
    for (job, rank), step in zip(walk(jobs, order), steps, strict=True):
        found.append((job.id, rank))
        if step:
            shares.charge(job.project, job.user, 56_000, 1, 1, step)
    return found


def a_queue(draw: random.Random, count, owners, keys):
    """Jobs with many ties: of key, of arrival, and of keys that differ in their last bits."""
    jobs = [
        a_job(
            draw.choice(["", "x-"]) + str(number),
            gpus=draw.choice([1, 1, 2]),
            project=f"p{draw.randrange(owners)}",
            user=f"u{draw.randrange(2)}",
            priority=draw.choice([Priority.NORMAL, Priority.NORMAL, Priority.HIGH]),
            queued_at=NOW - draw.choice([0, 0, 1, 2, draw.randrange(1_000)]),
            time_limit_seconds=draw.choice([600, 600, draw.randrange(60, 9_000)]),
            bypassed=draw.choice([0, 0, 0, BYPASS_LIMIT]),
        )
        for number in range(count)
    ]
    draw.shuffle(jobs)
    return jobs, {job.id: keys(draw) for job in jobs}


def a_tie(draw: random.Random) -> float:
    """One of a few keys, or a neighbour of it among the floats."""
    key = draw.choice([0.0, 0.1, 1.1, 3.3, 1e300])
    return key * (1 + draw.randrange(4) * 2**-52)


def any_key(draw: random.Random) -> float:
    return draw.choice([a_tie(draw), draw.random() * 10, float(draw.randrange(5))])


@many
@given(
    seed=st.integers(0, 2**32),
    count=st.one_of(st.integers(0, 12), st.integers(0, 300)),
    owners=st.sampled_from([1, 1, 2, 5]),
    mode=st.sampled_from([OrderMode.FAIR] * 3 + [*OrderMode]),
    keys=st.sampled_from([a_tie, any_key]),
)
def test_jobs_and_ranks_are_those_of_one_heap_of_all_jobs(seed, count, owners, mode, keys):
    draw = random.Random(seed)
    jobs, by_job = a_queue(draw, count, owners, keys)
    steps = [draw.choice([0, 0, draw.randrange(5)]) for _ in jobs]
    pairs = [(f"p{p}", f"u{u}") for p in range(owners) for u in range(2)]
    factors = {pair: draw.choice([0.5, 1.0, 0.5 + draw.random()]) for pair in pairs}
    walks = []
    for walk in (QueueIterator, one_heap):
        shares = GivenShares(factors)
        walks.append(sequence(walk, jobs, an_order(mode, shares, by_job), shares, steps))
    assert walks[0] == walks[1]


@many
@given(seed=st.integers(0, 2**32), count=st.integers(0, 120))
def test_so_it_is_with_fair_shares_of_a_cluster(seed, count):
    draw = random.Random(seed)
    jobs, by_job = a_queue(draw, count, 3, any_key)
    owners = [
        OwnerView(f"p{p}", user, draw.randint(1, 3), draw.randrange(10**12))
        for p in range(3)
        for user in ("", "u0", "u1")
    ]
    steps = [draw.choice([0, draw.randrange(100_000)]) for _ in jobs]
    walks = []
    for walk in (QueueIterator, one_heap):
        shares = FairShares(owners, ClusterTotals(8 * 56_000, 64_000, 512_000))
        order = an_order(OrderMode.FAIR, shares, by_job)
        walks.append(sequence(walk, jobs, order, shares, steps))
    assert walks[0] == walks[1]


@many
@given(seed=st.integers(0, 2**32), count=st.integers(0, 60))
def test_when_factors_fall_every_job_still_comes_once_and_no_rank_of_an_owner_falls(seed, count):
    draw = random.Random(seed)
    jobs, by_job = a_queue(draw, count, 2, any_key)
    shares = FallingShares({(f"p{p}", f"u{u}"): 1.0 for p in range(2) for u in range(2)})
    order = an_order(OrderMode.FAIR, shares, by_job)
    steps = [draw.randrange(4) for _ in jobs]
    found = sequence(QueueIterator, jobs, order, shares, steps)
    assert sorted(key for key, _ in found) == sorted(job.id for job in jobs)
    ranks = {}
    owners = {job.id: (job.project, job.user) for job in jobs}
    for key, rank in found:
        ranks.setdefault(owners[key], []).append(rank)
    assert all(each == sorted(each) for each in ranks.values())


@pytest.mark.parametrize("factor", [0.5, 1.1, 1.3, 1.9])
def test_jobs_whose_ranks_become_equal_by_rounding_go_by_arrival(factor):
    """Of two keys that differ in the last bit, the product may be the same; then age decides."""
    ties = 0
    for step in range(200):
        key = 1.7 + step * 2**-52
        later = a_job("1", queued_at=NOW)
        earlier = replace(a_job("2"), queued_at=NOW - 5)
        shares = GivenShares({("p", "u"): factor})
        next_key = key + 2**-52
        order = an_order(OrderMode.FAIR, shares, {"1": key, "2": next_key})
        found = [job.id for job, _ in QueueIterator([later, earlier], order)]
        tied = key * factor == next_key * factor
        assert found == (["2", "1"] if tied else ["1", "2"])
        ties += tied
    assert bool(ties) == (factor not in (0.5, 1.1))
