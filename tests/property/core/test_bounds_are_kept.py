"""The bound of a wait for quota: kept while limits are kept and nobody new comes, and never earlier
than the quota can be free."""

from hypothesis import given

from scheduler.core.explain.bounds import QUOTA_CODES, WaitBounds
from scheduler.core.forecast.pass_estimates import after_plan
from scheduler.core.model.policy import Policy, PreemptionMode
from tests.support.examples import examples
from tests.support.quota_worlds import in_units, quota_worlds, size_of

many = examples(80)
POLICY = Policy(preemption=PreemptionMode.OFF)


def bounds_of(snapshot, found):
    """(deferral, bound) of each job that waits for quota."""
    bounds = WaitBounds(after_plan(snapshot, found), found, {})
    short = [each for each in found.deferrals if each.reason.code in QUOTA_CODES]
    return [(each, bounds.of(each)) for each in short]


def starts_by_limit(snapshot, found, job):
    """When enough of the quotas of the job is free if all run to their limits, and nobody else that
    waits starts: counted end by end."""
    jobs = {each.id: each for each in snapshot.jobs}
    runs = [(run.ends_at, run.job) for run in snapshot.running]
    started = [jobs[place.job] for place in found.placements]
    runs += [
        (snapshot.now + each.time_limit_seconds - each.attained_seconds, each) for each in started
    ]
    for at in [snapshot.now, *sorted(end for end, _ in runs)]:
        if all(
            sum(in_units(size_of(each)) for end, each in runs if end > at and _of(quota, each))
            + in_units(size_of(job))
            <= quota.limit_units
            for quota in snapshot.quotas
            if _of(quota, job)
        ):
            return at
    return None


def _of(quota, job):
    return quota.project == job.project and quota.user in ("", job.user)


@many
@given(world=quota_worlds())
def test_from_a_certain_bound_on_no_pass_finds_the_quota_too_small(world):
    world.play(POLICY)
    last_arrival = max(job.queued_at for _, snapshot, _ in world.passes for job in snapshot.jobs)
    told = {}
    for now, snapshot, found in world.passes:
        short = {each.job for each in found.deferrals if each.reason.code in QUOTA_CODES}
        late = {id: at for id, at in told.items() if id in short and now >= at}
        assert not late, f"at {now} they still wait for quota"
        if now >= last_arrival:
            for deferral, bound in bounds_of(snapshot, found):
                if bound.is_certain:
                    told[deferral.job] = min(bound.at, told.get(deferral.job, bound.at))


@many
@given(world=quota_worlds(exact=True))
def test_no_bound_is_earlier_than_the_quota_can_be_free_and_one_is_told_where_it_can(world):
    for _, snapshot, found in world.play(POLICY).passes:
        jobs = {job.id: job for job in snapshot.jobs}
        for deferral, bound in bounds_of(snapshot, found):
            earliest = starts_by_limit(snapshot, found, jobs[deferral.job])
            assert earliest is not None, "what can never be is refused, not bounded"
            assert bound.at is not None
            assert bound.at >= earliest
            if not bound.is_certain:
                assert bound.at == earliest
            assert set(bound.jobs) <= {run.job.id for run in snapshot.running} | {
                place.job for place in found.placements
            }


@many
@given(world=quota_worlds(exact=True))
def test_a_job_that_is_alone_has_its_quota_at_its_bound_and_not_before(world):
    """Who ends is named: without that end there is not enough."""
    for _, snapshot, found in world.play(POLICY).passes:
        for deferral, bound in bounds_of(snapshot, found):
            if len(found.deferrals) > 1:
                continue
            (job,) = (job for job in snapshot.jobs if job.id == deferral.job)
            assert bound.is_certain
            assert bound.at == starts_by_limit(snapshot, found, job)
