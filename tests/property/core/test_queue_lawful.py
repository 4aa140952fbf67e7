"""Whatever the queue, played until all have ended: nobody is delayed, lost, or given twice."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.policy import BackfillMode, OrderMode, PreemptionMode
from tests.support.examples import examples
from tests.support.queue_worlds import play
from tests.support.snapshots import as_bytes, plan_of
from tests.support.strategies import POLICIES, queues

some = examples(60)


def devices(places):
    return [d.gpu for place in places for r in place.replicas for d in r.devices]


@some
@given(queue=queues(), policy=POLICIES)
def test_no_gpu_is_given_twice_gangs_are_whole_and_every_job_ends(queue, policy):
    sizes, jobs, seconds = queue
    by_id = {job.id: job for job in jobs}
    _, ended, plans = play(sizes, jobs, seconds, **policy)
    assert ended.keys() == by_id.keys()
    for _, snapshot, found in plans:
        held = [d.gpu for run in snapshot.running for r in run.replicas for d in r.devices]
        taken = held + devices(found.placements)
        assert len(taken) == len(set(taken))
        named = [p.job for p in found.placements] + [h.job for h in found.deferrals]
        assert sorted(named) == sorted(job.id for job in snapshot.jobs)
        for place in found.placements:
            job = by_id[place.job]
            assert [r.rank for r in place.replicas] == list(range(job.replicas))
            assert {len(r.devices) for r in place.replicas} == {job.device.gpus}
        running = {run.job.id: run.job for run in snapshot.running}
        stopped = [stop.job for stop in found.preemptions]
        assert len(stopped) == len(set(stopped))
        assert all(running[key].preemptible for key in stopped)


@some
@given(queue=queues(), policy=POLICIES)
def test_who_is_first_in_order_does_not_wait_where_it_fits(queue, policy):
    """Work conservation: alone in the queue, the first one that waits would find no place."""
    sizes, jobs, seconds = queue
    for now, snapshot, found in play(sizes, jobs, seconds, **policy)[2]:
        if found.deferrals and not found.placements and not found.preemptions:
            first = next(j for j in snapshot.jobs if j.id == found.deferrals[0].job)
            alone = replace(snapshot, now=now, jobs=(first,))
            assert not plan_of(alone, **policy).placements


@some
@given(queue=queues())
def test_the_head_never_starts_later_than_it_was_promised(queue):
    sizes, jobs, seconds = queue
    started, _, plans = play(
        *(sizes, jobs, seconds),
        order=OrderMode.FIFO,
        backfill=BackfillMode.EASY,
        preemption=PreemptionMode.OFF,
    )
    for _, _, found in plans:
        for promise in found.reservations:
            assert started[promise.job] <= promise.starts_at


@some
@given(queue=queues(nodes=1, exact=True))
def test_conservative_backfill_delays_nobody_beyond_the_first_promise(queue):
    sizes, jobs, seconds = queue
    jobs = [replace(job, replicas=1) for job in jobs]
    started, _, plans = play(
        *(sizes, jobs, seconds),
        order=OrderMode.FIFO,
        backfill=BackfillMode.CONSERVATIVE,
        preemption=PreemptionMode.OFF,
    )
    for _, _, found in plans:
        for promise in found.reservations:
            assert started[promise.job] <= promise.starts_at


@some
@given(queue=queues())
def test_promised_places_are_free_of_each_other_and_of_what_still_runs(queue):
    sizes, jobs, seconds = queue
    limit = {job.id: job.time_limit_seconds for job in jobs}
    policy = {"backfill": BackfillMode.CONSERVATIVE, "preemption": PreemptionMode.OFF}
    for now, snapshot, found in play(sizes, jobs, seconds, **policy)[2]:
        uses = [
            (now, r.ends_at, {d.gpu for x in r.replicas for d in x.devices})
            for r in snapshot.running
        ]
        uses += [(now, now + limit[p.job], set(devices([p]))) for p in found.placements]
        uses += [
            (r.starts_at, r.starts_at + limit[r.job], set(devices([r]))) for r in found.reservations
        ]
        for number, (begin, end, gpus) in enumerate(uses):
            for begin2, end2, gpus2 in uses[:number]:
                apart = end <= begin2 or end2 <= begin or not (gpus & gpus2)
                assert apart, (gpus, gpus2)


@some
@given(queue=queues(), limit=st.integers(1, 3))
def test_nobody_is_overtaken_more_often_than_the_limit_says(queue, limit):
    """Once at the limit, the head has a promise: only who delays nobody still starts before it."""
    sizes, jobs, seconds = queue
    policy = {
        "backfill": BackfillMode.SKIP,
        "preemption": PreemptionMode.OFF,
        "bypass_limit": limit,
    }
    started, _, plans = play(sizes, jobs, seconds, **policy)
    for _, snapshot, found in plans:
        overdue = [job for job in snapshot.jobs if job.bypassed >= limit]
        promised = {r.job: r.starts_at for r in found.reservations}
        held = {hold.job for hold in found.deferrals}
        assert all(job.id in promised for job in overdue if job.id in held)
    first = {}
    for _, snapshot, found in plans:
        overdue = {job.id for job in snapshot.jobs if job.bypassed >= limit}
        for promise in found.reservations:
            if len(overdue) == 1 and promise.job in overdue:
                first.setdefault(promise.job, promise.starts_at)
    assert all(started[key] <= at for key, at in first.items())


@some
@given(queue=queues(), policy=POLICIES)
def test_the_same_queue_gives_the_same_bytes_however_it_is_listed(queue, policy):
    sizes, jobs, seconds = queue
    for now, snapshot, found in play(sizes, jobs, seconds, **policy)[2]:
        mirrored = replace(
            snapshot,
            now=now,
            nodes=snapshot.nodes[::-1],
            jobs=snapshot.jobs[::-1],
            running=snapshot.running[::-1],
        )
        assert as_bytes(plan_of(mirrored, **policy)) == as_bytes(found)
