"""A pass takes back what was lent: the lender's job starts, few borrowers stop, nobody in vain."""

from dataclasses import replace

from scheduler.core.model.decisions import PreemptionCause
from scheduler.core.model.policy import OrderMode, PreemptionMode
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Priority
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.quotas import a_nominal
from tests.support.snapshots import placed, plan_of, reason


def holds(id, project, *gpus, **fields):
    fields = {"preemptible": True, "since": 10_000} | fields
    since, stopping = fields.pop("since"), fields.pop("stopping", False)
    job = waiting(id, gpus=len(gpus), project=project, **fields)
    return a_run(job, *gpus, since=since, stopping=stopping)


def a_shared_cluster(size, running, jobs, *, lender=4, **more):
    """One node; p lends `lender` GPUs, q has a quota of one and may borrow what others lend."""
    used = {"p": 0, "q": 0} | more
    for run in running:
        used[run.job.project] += len(run.replicas[0].devices)
    quotas = (
        a_nominal("p", lender, used=used["p"], borrow=9, lend=lender),
        a_nominal("q", 1, used=used["q"], borrow=9, lend=1),
    )
    return replace(a_busy_cluster([size], running=running, jobs=jobs), quotas=quotas)


def stops(found):
    return {(p.job, p.for_job, p.cause) for p in found.preemptions}


def test_a_lender_gets_its_gpus_back_and_only_as_many_borrowers_stop_as_it_takes():
    runs = [holds(str(90 + n), "q", f"n1/{n}", since=10_000 - n) for n in range(4)]
    jobs = [waiting("1", gpus=2, project="p")]
    found = plan_of(a_shared_cluster(4, runs, jobs))
    assert stops(found) == {
        ("92", "1", PreemptionCause.RECLAIM),
        ("93", "1", PreemptionCause.RECLAIM),
    }
    assert reason(found).evidence == {"stopping": ["93", "92"]}


def test_the_job_starts_when_they_have_stopped_though_a_borrower_waits_before_it():
    runs = [holds("90", "q", "n1/0"), holds("91", "q", "n1/1", stopping=True)]
    first = waiting("1", project="q", queued_at=1, time_limit_seconds=60)
    lender = waiting("2", project="p", time_limit_seconds=90_000)
    held = plan_of(a_shared_cluster(2, runs, [first, lender]), order=OrderMode.FIFO)
    assert not held.preemptions
    assert reason(held, "2").sentence == "It waits until J-91 has stopped"
    after = plan_of(a_shared_cluster(2, runs[:1], [first, lender]), order=OrderMode.FIFO)
    assert placed(after) == ["2"]


def test_priorities_do_not_save_a_borrower_and_being_new_does_not():
    runs = [holds("90", "q", "n1/0", "n1/1", priority=Priority.HIGH, since=5)]
    found = plan_of(a_shared_cluster(2, runs, [waiting("1", gpus=2, project="p")]))
    assert stops(found) == {("90", "1", PreemptionCause.RECLAIM)}


def test_nobody_stops_for_who_would_borrow_itself_or_where_borrowers_cannot_be_stopped():
    large, small = waiting("1", gpus=2, project="p"), waiting("2", project="p")
    runs = [holds("90", "q", "n1/0"), holds("91", "q", "n1/1")]
    assert not plan_of(a_shared_cluster(2, runs, [large], lender=1)).preemptions
    fixed = [holds("90", "q", "n1/0", preemptible=False), holds("91", "p", "n1/1")]
    found = plan_of(a_shared_cluster(2, fixed, [small]))
    assert not found.preemptions
    assert reason(found, "2").code is ReasonCode.RESOURCES
    assert not plan_of(
        a_shared_cluster(2, runs, [small]), preemption=PreemptionMode.OFF
    ).preemptions


def test_work_within_its_quota_is_left_alone_whatever_the_size_of_the_request():
    """q uses what is its own, and r borrows: only r gives."""
    runs = [holds("90", "q", "n1/0"), holds("91", "r", "n1/1")]
    quotas = (
        a_nominal("p", 2, lend=2),
        a_nominal("q", 1, used=1),
        a_nominal("r", 0, used=1, borrow=2),
    )
    cluster = a_busy_cluster([2], running=runs, jobs=[waiting("1", gpus=2, project="p")])
    assert not plan_of(replace(cluster, quotas=quotas)).preemptions
    one = replace(cluster, jobs=(waiting("1", project="p"),), quotas=quotas)
    assert stops(plan_of(one)) == {("91", "1", PreemptionCause.RECLAIM)}


def test_who_fails_to_take_back_does_not_decide_for_another_project():
    """Both ask for the same. q comes first and may not take anything back, p may."""
    runs = [holds(str(90 + n), "q", f"n1/{n}", priority=Priority.HIGH) for n in range(2)]
    jobs = [waiting("1", project="q", priority=Priority.HIGH), waiting("2", project="p")]
    found = plan_of(a_shared_cluster(2, runs, jobs))
    assert [deferral.job for deferral in found.deferrals] == ["1", "2"]
    assert [p.for_job for p in found.preemptions] == ["2"]


def test_two_jobs_of_a_lender_never_count_on_the_same_borrower():
    runs = [holds(str(90 + n), "q", f"n1/{n}") for n in range(3)]
    jobs = [waiting(str(n), project="p") for n in (1, 2, 3)]
    found = plan_of(a_shared_cluster(3, runs, jobs, lender=3))
    # q is two above its quota of one: two of the three stop.
    assert sorted(p.for_job for p in found.preemptions) == ["1", "2"]
    assert len({p.job for p in found.preemptions}) == 2
