"""Quota is taken back from the smallest set of borrowers, against every other set, one by one.

Which sets would be enough is asked of whole passes over the world without them.
"""

from itertools import combinations

from hypothesis import event, given

from scheduler.core.model.decisions import PreemptionCause
from scheduler.core.model.policy import PreemptionMode
from scheduler.core.placement.ledger import Ledger
from scheduler.core.quota.holders import board_of_gpus
from scheduler.core.quota.reclaim import reclaim_candidates
from tests.support.examples import examples
from tests.support.reclaim_worlds import size_of, without, worlds
from tests.support.snapshots import H200, UNITS_PER_GPU, placed, plan_of

many = examples(120)


def smallest(snapshot, job):
    """By trying them all: the fewest jobs, then the fewest GPUs, then the first ones."""
    accounts = Ledger(snapshot).accounts
    boards = board_of_gpus(snapshot.nodes)
    units = size_of(job) * UNITS_PER_GPU
    found = reclaim_candidates(snapshot.running, accounts, job, units, H200, boards)
    gpus = [size_of(run.job) for run in found]
    for count in range(len(found) + 1):
        sets = combinations(range(len(found)), count)
        for _, each in sorted((sum(gpus[i] for i in some), some) for some in sets):
            stopped = [found[i].job.id for i in each]
            if placed(plan_of(without(snapshot, stopped), preemption=PreemptionMode.OFF)):
                return stopped
    return None


@many
@given(snapshot=worlds(fixed=True))
def test_no_smaller_set_of_borrowers_would_do_than_the_one_that_stops(snapshot):
    (job,) = snapshot.jobs
    found = plan_of(snapshot)
    stops = [s.job for s in found.preemptions if s.cause is PreemptionCause.RECLAIM]
    event(f"{len(stops)} stop")
    if stops:
        assert sorted(stops) == sorted(smallest(snapshot, job))
