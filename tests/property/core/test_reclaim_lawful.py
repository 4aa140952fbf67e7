"""Quotas with borrowing, through whole passes: who lent gets it back, and only borrowers give."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contract.units import UNITS_PER_GPU as GPU
from scheduler.core.model.decisions import PreemptionCause
from scheduler.core.model.policy import PreemptionMode
from scheduler.core.model.snapshot import Priority, QuotaView
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.snapshots import as_bytes, placed, plan_of

many = settings(max_examples=150, deadline=None, derandomize=True)
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


def limits_of(snapshot):
    return {q.project: q.limit_units // GPU for q in snapshot.quotas}


def held_by(snapshot):
    return Counter({q.project: q.used_units // GPU for q in snapshot.quotas})


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


@many
@given(snapshot=worlds())
def test_who_stays_within_its_quota_starts_after_those_stopped_and_no_fewer_would_do(snapshot):
    (job,) = snapshot.jobs
    held, limits = held_by(snapshot), limits_of(snapshot)
    found = plan_of(snapshot)
    if held[job.project] + size_of(job) > limits[job.project]:
        return
    stopped = [stop.job for stop in found.preemptions]
    assert placed(found) or stopped, "its own quota is always to be had"
    if stopped:
        assert {stop.cause for stop in found.preemptions} == {PreemptionCause.RECLAIM}
        assert placed(plan_of(without(snapshot, stopped))) == [job.id]
        for spared in stopped:
            fewer = without(snapshot, [key for key in stopped if key != spared])
            assert not placed(plan_of(fewer, preemption=PreemptionMode.OFF))


@many
@given(snapshot=worlds(most_jobs=5, fixed=True))
def test_nobody_within_its_quota_is_stopped_for_quota_and_only_for_who_is_within_its_own(snapshot):
    found = plan_of(snapshot)
    running = {run.job.id: run.job for run in snapshot.running}
    jobs = {job.id: job for job in snapshot.jobs}
    held, limits = held_by(snapshot), limits_of(snapshot)
    for key in placed(found):
        held[jobs[key].project] += size_of(jobs[key])
    sizes = {}
    for stop in found.preemptions:
        victim, lender = running[stop.job], jobs[stop.for_job]
        assert victim.preemptible
        if stop.cause is PreemptionCause.RECLAIM:
            assert victim.project != lender.project
            assert held_by(snapshot)[lender.project] + size_of(lender) <= limits[lender.project]
            sizes.setdefault(victim.project, []).append(size_of(victim))
    for project, each in sizes.items():
        # It was above its quota until the last of them.
        assert held[project] - sum(each) + max(each) > limits[project]


@many
@given(snapshot=worlds(most_jobs=5, fixed=True))
def test_what_is_borrowed_in_a_pass_was_lent_and_is_never_more_than_may_be_borrowed(snapshot):
    found = plan_of(snapshot, preemption=PreemptionMode.OFF)
    jobs = {job.id: job for job in snapshot.jobs}
    before, after, limits = held_by(snapshot), held_by(snapshot), limits_of(snapshot)
    for key in placed(found):
        after[jobs[key].project] += size_of(jobs[key])
    borrowing = [p for p in PROJECTS if after[p] > max(before[p], limits[p])]
    if borrowing:
        borrowed = sum(max(0, after[p] - limits[p]) for p in PROJECTS)
        idle = sum(max(0, limits[p] - before[p]) for p in PROJECTS)
        assert borrowed <= idle


@many
@given(snapshot=worlds(most_jobs=5, fixed=True))
def test_the_order_in_which_a_shared_world_is_listed_changes_nothing(snapshot):
    mirrored = replace(
        snapshot,
        jobs=snapshot.jobs[::-1],
        running=snapshot.running[::-1],
        quotas=snapshot.quotas[::-1],
    )
    assert as_bytes(plan_of(mirrored)) == as_bytes(plan_of(snapshot))
