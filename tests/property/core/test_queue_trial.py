"""A queue trial decides about a job as a pass over the whole queue would, without that pass."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import RunningJob
from scheduler.core.plan import plan_and_can_start
from scheduler.core.queue_trial import QueueTrial
from tests.property.core.plan_effects import carried_out
from tests.property.core.worlds import jobs, worlds
from tests.support.examples import examples
from tests.support.queue_worlds import play, waiting
from tests.support.snapshots import NOW
from tests.support.strategies import POLICIES, queues

some = examples(60)
few = examples(20)


def of_the_whole_queue(snapshot, policy, places, job):
    """Place, and code of the reason, in a pass over everybody once these places are held."""
    asked = {each.id: each for each in snapshot.jobs}
    held = [RunningJob(asked[p.job], tuple(named(p)), snapshot.now) for p in places]
    after = carried_out(snapshot, places)
    after = replace(after, running=(*after.running, *held), jobs=(*after.jobs, job))
    found, _ = plan_and_can_start(after, policy, RuntimeModel.from_snapshot(after))
    place = next((p.replicas for p in found.placements if p.job == job.id), None)
    code = next((hold.reason.code for hold in found.deferrals if hold.job == job.id), None)
    promised = {each.job: each.starts_at for each in found.reservations}
    return where(place), code, promised.get(job.id)


def named(place):
    """Its replicas with the slices that `carried_out` makes for them."""
    for replica in place.replicas:
        numbered = enumerate(replica.devices)
        yield replace(
            replica,
            devices=tuple(
                replace(device, slice=device.slice or f"new-{place.job}-{replica.rank}-{number}")
                for number, device in numbered
            ),
        )


def where(replicas):
    return replicas and [
        (r.rank, r.node, [(d.gpu, d.profile, d.start, d.size, d.threads) for d in r.devices])
        for r in replicas
    ]


def agrees(snapshot, policy, new_jobs):
    trial = QueueTrial(snapshot, policy, RuntimeModel.from_snapshot(snapshot))
    for job in new_jobs:
        quick = trial.try_job(job)
        places = trial.plan.placements
        replicas, code, starts_at = of_the_whole_queue(snapshot, policy, places, job)
        assert where(quick.placement.replicas if quick.placement else None) == replicas
        assert quick.starts_at == starts_at
        if not places:
            # Else it may be told that those go first, where the next pass finds them running.
            assert (quick.reason.code if quick.reason else None) == code


@some
@given(world=worlds(), more=st.lists(jobs("99"), min_size=1, max_size=2), policy=POLICIES)
def test_of_slices_shares_and_quotas(world, more, policy):
    agrees(world, Policy(**policy), [replace(job, queued_at=NOW) for job in more])


@few
@given(
    queue=queues(),
    policy=POLICIES,
    gpus=st.integers(1, 4),
    limit=st.sampled_from([60, 300, 900]),
)
def test_of_busy_clusters_with_promises_and_work_that_may_stop(queue, policy, gpus, limit):
    for now, snapshot, _ in play(*queue, **policy)[2]:
        job = waiting("99", gpus=gpus, time_limit_seconds=limit, queued_at=now)
        agrees(replace(snapshot, now=now), Policy(**policy), [job])
