"""Random worlds of lenders and borrowers, for properties of reclaim."""

from collections import Counter
from dataclasses import replace

from hypothesis import strategies as st

from agents.contract.units import UNITS_PER_GPU as GPU
from scheduler.core.model.snapshot import Priority, QuotaView
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting

PROJECTS = ("p", "q", "r")


@st.composite
def worlds(draw, *, most_jobs=1, fixed=False):
    """One node, as large as the nominal quotas together; all may borrow what is idle. `fixed`:
    some of the running work cannot be stopped."""
    limits = {project: draw(st.integers(0, 4)) for project in PROJECTS}
    size = max(1, sum(limits.values()))
    running, free, held = [], list(range(size)), Counter()
    while free and draw(st.integers(0, 4)):
        count = draw(st.integers(1, min(3, len(free))))
        gpus = [f"n1/{free.pop(0)}" for _ in range(count)]
        project = draw(st.sampled_from(PROJECTS))
        held[project] += count
        job = waiting(
            str(90 + len(running)),
            gpus=count,
            project=project,
            preemptible=draw(st.booleans()) if fixed else True,
            priority=draw(st.sampled_from(list(Priority))),
        )
        running.append(a_run(job, *gpus, since=draw(st.sampled_from([10, 9_000]))))
    quotas = tuple(
        QuotaView(p, "", limit * GPU, held[p] * GPU, "", 99 * GPU, 99 * GPU)
        for p, limit in limits.items()
    )
    jobs = [
        waiting(
            str(n),
            gpus=draw(st.integers(1, 3)),
            project=draw(st.sampled_from(PROJECTS)),
            queued_at=draw(st.integers(1, 3)),
            time_limit_seconds=draw(st.sampled_from([100, 9_000])),
        )
        for n in range(1, draw(st.integers(1, most_jobs)) + 1)
    ]
    return replace(a_busy_cluster([size], running=running, jobs=jobs), quotas=quotas)


def size_of(job):
    return job.device.gpus * job.replicas


def without(snapshot, gone):
    """The world when these running jobs have stopped."""
    left = [run for run in snapshot.running if run.job.id not in gone]
    held = Counter()
    for run in left:
        held[run.job.project] += size_of(run.job)
    quotas = tuple(replace(q, used_units=held[q.project] * GPU) for q in snapshot.quotas)
    size = len(snapshot.nodes[0].gpus)
    return replace(a_busy_cluster([size], running=left, jobs=snapshot.jobs), quotas=quotas)
