"""Quotas with borrowing, through whole passes: who lent gets it back, and only borrowers give."""

from collections import Counter
from dataclasses import replace

from hypothesis import given

from agents.contract.units import UNITS_PER_GPU as GPU
from scheduler.core.model.decisions import PreemptionCause
from scheduler.core.model.policy import PreemptionMode
from tests.support.examples import examples
from tests.support.reclaim_worlds import PROJECTS, size_of, without, worlds
from tests.support.snapshots import as_bytes, placed, plan_of

many = examples(150)


def limits_of(snapshot):
    return {q.project: q.limit_units // GPU for q in snapshot.quotas}


def held_by(snapshot):
    return Counter({q.project: q.used_units // GPU for q in snapshot.quotas})


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
