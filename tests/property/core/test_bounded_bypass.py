"""Nobody starves: how often a waiting job is overtaken, and how long it waits, is bounded.

A job is overtaken in a pass in which a job that arrived later and has no higher priority starts for
the first time. Let L be the bypass limit and D the longest time limit. Each property plays random
streams through the planner, pass by pass, and counts.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.contract.units import UNITS_PER_GPU
from scheduler.core.model.policy import BackfillMode, OrderMode, Policy, PreemptionMode
from scheduler.core.model.snapshot import PRIORITY_RANK, Priority, QuotaView
from tests.property.core.job_streams import arrival, overtakes, play_stream
from tests.support.examples import examples
from tests.support.queue_worlds import waiting
from tests.support.snapshots import NOW

some = examples(60)
LEAST, LONGEST = 50, 400
POLICIES = st.builds(
    Policy,
    order=st.sampled_from(list(OrderMode)),
    backfill=st.sampled_from(list(BackfillMode)),
    preemption=st.sampled_from(list(PreemptionMode)),
    bypass_limit=st.sampled_from([1, 2, 4]),
    moves=st.sampled_from([0, 2]),
    protection_seconds=st.sampled_from([100, 1_800]),
)


@st.composite
def streams(draw, *, bands=tuple(Priority), most=30, projects=("p",)):
    """Two nodes of four GPUs. One or two wide jobs come early; narrow ones keep coming, so fast
    that the cluster is never empty for long."""
    jobs, seconds, now = [], {}, NOW
    wide = draw(st.sets(st.integers(2, 8), min_size=1, max_size=2))
    for number in range(1, draw(st.integers(12, most)) + 1):
        gpus, replicas = 1, 1
        if number in wide:
            gpus, replicas = draw(st.sampled_from([(4, 2), (4, 1), (3, 2)]))
        elif draw(st.booleans()):
            gpus = 2
        limit = draw(st.sampled_from([100, 200, LONGEST]))
        seconds[str(number)] = draw(st.sampled_from([limit, limit // 2, LEAST]))
        jobs.append(
            waiting(
                str(number),
                gpus=gpus,
                replicas=replicas,
                queued_at=now,
                time_limit_seconds=limit,
                priority=draw(st.sampled_from(bands)),
                preemptible=draw(st.booleans()),
                project=draw(st.sampled_from(projects)),
                user=draw(st.sampled_from(["u", "v"])),
            )
        )
        now += draw(st.sampled_from([0, 10, 25, 40]))
    return [4, 4], jobs, seconds


def overtaking_passes(played, job):
    """By pass in which the job waited and did not start: who overtook it, for the first time."""
    by_id = {j.id: j for _, snapshot, _ in played.passes for j in snapshot.jobs}
    found = {}
    for number in range(played.first[job.id][1]):
        names = [p.job for p in played.passes[number][2].placements]
        late = [by_id[n] for n in names if played.first[n][1] == number]
        late = [other for other in late if overtakes(other, job)]
        if late and job.queued_at <= played.passes[number][0]:
            found[number] = late
    return found


def ahead_of(jobs, job):
    """Who may rightly start before it: earlier ones of its band, and all of higher bands."""
    rank = PRIORITY_RANK[job.priority]
    earlier = [j for j in jobs if PRIORITY_RANK[j.priority] == rank and arrival(j) < arrival(job)]
    return len(earlier) + sum(1 for j in jobs if PRIORITY_RANK[j.priority] < rank)


def check_bound(played, jobs, policy, turns=1):
    """B = L x S + G x W / r: at most L passes before its turn is due, each with at most S starts;
    from then on only who does not delay its promise passes it, for at most W = (1 + those rightly
    ahead) x D seconds, on G GPUs in runs of at least r seconds."""
    starts = max(len(found.placements) for _, _, found in played.passes)
    for job in jobs:
        passed = overtaking_passes(played, job)
        due = sorted(passed)[: policy.bypass_limit]
        wait = (1 + ahead_of(jobs, job)) * LONGEST * turns
        if len(passed) >= policy.bypass_limit:
            since = played.passes[due[-1]][0]
            assert played.first[job.id][0] <= since + wait, job.id
        bound = policy.bypass_limit * starts + 8 * wait / LEAST
        assert sum(map(len, passed.values())) <= bound


@some
@given(stream=streams(), policy=POLICIES)
def test_under_every_order_backfill_and_preemption_later_jobs_overtake_only_so_often(
    stream, policy
):
    sizes, jobs, seconds = stream
    check_bound(play_stream(sizes, jobs, seconds, policy), jobs, policy)


@pytest.mark.slow
@some
@given(stream=streams(projects=("p", "q")), policy=POLICIES, limit=st.sampled_from([4, 8]))
def test_nor_does_a_quota_let_the_small_jobs_of_its_owners_pass_a_wide_one_for_ever(
    stream, policy, limit
):
    sizes, jobs, seconds = stream
    quotas = [QuotaView(p, "", limit * UNITS_PER_GPU, 0) for p in "pq"]
    quotas.append(QuotaView("p", "u", 4 * UNITS_PER_GPU, 0))
    # What the quota could never pay for is not asked.
    jobs = [replace(j, replicas=1) for j in jobs]
    played = play_stream(sizes, jobs, seconds, policy, quotas)
    # First its quota is kept until others of it have ended, then its place.
    check_bound(played, jobs, policy, turns=2)


def crowd(count, every=50, **fields):
    """One job that needs every GPU, and after it a stream of small ones that never lets go."""
    wide = waiting("1", gpus=4, time_limit_seconds=400, queued_at=NOW + 1)
    small = [
        waiting(str(n), queued_at=NOW + (n - 2) * every, time_limit_seconds=100, **fields)
        for n in range(2, count)
    ]
    return [wide, *small], {"1": 400} | {job.id: 100 for job in small}


def test_by_default_an_endless_stream_of_small_jobs_does_not_starve_a_wide_one():
    jobs, seconds = crowd(80)
    policy = Policy(bypass_limit=20)
    played = play_stream([4], jobs, seconds, policy)
    passed = overtaking_passes(played, jobs[0])
    assert 20 <= len(passed) < 25
    assert played.first["1"][0] < NOW + 25 * 50 + 400


def test_by_default_the_small_jobs_of_a_quota_do_not_starve_a_wide_one_of_it():
    jobs, seconds = crowd(80)
    quotas = [QuotaView("p", "", 4 * UNITS_PER_GPU, 0)]
    played = play_stream([4, 4], jobs, seconds, Policy(bypass_limit=20), quotas)
    assert len(overtaking_passes(played, jobs[0])) == 20
    assert played.first["1"][0] < NOW + 25 * 50 + 400


@pytest.mark.slow
@some
@given(stream=streams(), policy=POLICIES)
def test_when_arrivals_stop_every_job_starts_and_ends_within_the_time_of_all_limits(stream, policy):
    sizes, jobs, seconds = stream
    played = play_stream(sizes, jobs, seconds, policy)
    last = max(job.queued_at for job in jobs)
    limits = sum(job.time_limit_seconds for job in jobs)
    assert played.ended.keys() == {job.id for job in jobs}
    assert max(when for when, _ in played.first.values()) <= last + limits
