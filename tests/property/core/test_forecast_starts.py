"""The compiled forward run of the queue equals a slow one that is written from the definition."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.forecast.starts import start_estimates
from scheduler.core.model.policy import BackfillMode
from tests.support.examples import examples
from tests.unit.forecast.queues import a_holding, a_queue, a_queued

NODES = (4, 4, 2)


@st.composite
def queues(draw):
    """Running jobs that fit, and waiting ones, some from a later time on; everybody runs to the
    limit."""
    running = []
    for node, gpus in enumerate(NODES):
        for _ in range(draw(st.integers(0, 2))):
            taken = draw(st.integers(0, gpus))
            if taken:
                gpus -= taken
                running.append(a_holding(taken, draw(st.integers(1, 50)), node=node))
    count = draw(st.integers(1, 8))
    keys = draw(st.permutations(range(count)))
    waiting = [
        a_queued(
            str(i),
            draw(st.integers(1, 4)),
            draw(st.integers(1, 50)),
            key=keys[i],
            replicas=draw(st.integers(1, 2)),
            band=draw(st.integers(0, 1)),
            begin_at=draw(st.sampled_from([0, 0, 1, 7, 30, 90])),
        )
        for i in range(count)
    ]
    return (
        running,
        waiting,
        draw(st.sampled_from([BackfillMode.NONE, BackfillMode.SKIP, BackfillMode.EASY])),
    )


class Slow:
    """Every second, everybody in order: start it, or promise the first that cannot its place."""

    def __init__(self, running, waiting, backfill):
        self.backfill = backfill
        self.free = [gpus * 56_000 for gpus in NODES]
        self.held = [(round(each.limit), each.places) for each in running]
        for _, places in self.held:
            for node, units in places:
                self.free[node] -= units
        self.queue = sorted(waiting, key=lambda job: (job.band, job.key))
        self.queue = [job for job in self.queue if self.gangs([g * 56_000 for g in NODES], job)]
        self.starts = {}

    @staticmethod
    def gangs(free, job):
        """Whether the gang fits."""
        return sum(units // job.units for units in free) >= job.replicas

    def run(self):
        now = 0
        while self.queue:
            ended = [item for item in self.held if item[0] <= now]
            self.held = [item for item in self.held if item[0] > now]
            for _, places in ended:
                for node, units in places:
                    self.free[node] += units
            self.step(now)
            now += 1
        return self.starts

    def step(self, now):
        head, at, then, left, stuck = None, 0, [], [], False
        for job in self.queue:
            if job.begin_at > now:
                left.append(job)
                continue
            places = None
            if not (stuck and self.backfill is BackfillMode.NONE):
                spare = head is not None and now + job.limit > at
                places = self.place(job, then if spare else None, head)
            if places is None:
                left.append(job)
                stuck = True
                if head is None and self.backfill is BackfillMode.EASY:
                    head = job
                    at, then = self.promise(job)
                continue
            self.starts[job.id] = now
            self.held.append((now + job.limit, [(node, job.units) for node in places]))
        self.queue = left

    def promise(self, job):
        free = list(self.free)
        for at in sorted({end for end, _ in self.held}):
            for end, places in self.held:
                if end == at:
                    for node, units in places:
                        free[node] += units
            if self.gangs(free, job):
                return at, free
        raise AssertionError("it fits on an empty cluster")

    def place(self, job, then, head):
        """Fullest node first; with `then`, only where the head still fits at its time."""
        free, later, chosen = list(self.free), list(then or ()), []
        for _ in range(job.replicas):
            nodes = [n for n, units in enumerate(free) if units >= job.units]
            if then is not None:
                nodes = [
                    n
                    for n in nodes
                    if self.gangs([u - job.units * (i == n) for i, u in enumerate(later)], head)
                ]
            if not nodes:
                return None
            best = min(nodes, key=lambda n: (free[n], n))
            free[best] -= job.units
            if then is not None:
                later[best] -= job.units
            chosen.append(best)
        self.free = free
        if then is not None:
            then[:] = later
        return chosen


@examples(150)
@given(queues())
def test_forward_run_equals_the_definition(queue):
    running, waiting, backfill = queue
    slow = Slow(running, waiting, backfill).run()
    found = start_estimates(a_queue(NODES, running, waiting, backfill=backfill), runs=2)
    assert {id: each.expected for id, each in found.items() if each} == slow
    assert all(each is None or each.optimistic == each.pessimistic for each in found.values())
    assert {id for id, each in found.items() if each is None} == {
        job.id for job in waiting if job.id not in slow
    }
