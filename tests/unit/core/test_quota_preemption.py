"""Urgent work in a full quota: its owner's less urgent work stops, as little of it as is enough."""

from dataclasses import replace

import pytest

from scheduler.core.model.decisions import PreemptionCause
from scheduler.core.model.policy import PreemptionMode, QuotaPreemption
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import OwnerView, Priority
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.quotas import a_nominal
from tests.support.snapshots import placed, plan_of, reason


def holds(id, *gpus, since=10_000, stopping=False, **fields):
    fields = {"preemptible": True, "priority": Priority.LOW} | fields
    return a_run(waiting(id, gpus=len(gpus), **fields), *gpus, since=since, stopping=stopping)


def urgent(id="1", **fields):
    return waiting(id, priority=Priority.HIGH, **fields)


def a_full_quota(running, jobs, *, limit=2, size=4, quotas=(), **policy):
    """A node of `size` GPUs; the quota of p is `limit`, and what runs counts on it."""
    used = sum(len(run.replicas[0].devices) for run in running if run.job.project == "p")
    cluster = a_busy_cluster([size], running=running, jobs=jobs)
    return plan_of(replace(cluster, quotas=(a_nominal("p", limit, used=used), *quotas)), **policy)


def stops(found):
    return [(stop.job, stop.for_job, stop.cause) for stop in found.preemptions]


def test_own_work_of_a_lower_band_stops_though_devices_are_free():
    found = a_full_quota([holds("90", "n1/0"), holds("91", "n1/1")], [urgent()])
    assert stops(found) == [("91", "1", PreemptionCause.QUOTA)]
    assert not found.placements, "the quota is free once J-91 is gone"
    assert reason(found).code is ReasonCode.PRIORITY
    assert reason(found).sentence == "It waits until J-91 has stopped"


def test_who_just_started_is_not_protected_from_the_owners_own_urgent_work():
    found = a_full_quota([holds("90", "n1/0", since=1)], [urgent()], limit=1)
    assert stops(found) == [("90", "1", PreemptionCause.QUOTA)]


def test_what_stops_already_is_waited_for_and_then_the_urgent_job_starts_first():
    runs = [holds("90", "n1/0", stopping=True), holds("91", "n1/1")]
    found = a_full_quota(runs, [urgent()])
    assert not found.preemptions
    assert reason(found).evidence == {"stopping": ["90"]}
    after = a_full_quota(runs[1:], [waiting("90", priority=Priority.LOW), urgent()])
    assert placed(after) == ["1"]


def test_nobody_takes_the_quota_of_who_still_stops():
    """J-90 gives two GPUs of quota, J-1 needs one: the other one is free only when J-90 is gone."""
    runs = [holds("90", "n1/0", "n1/1")]
    found = a_full_quota(runs, [urgent(), waiting("2", priority=Priority.NORMAL)], limit=2)
    assert stops(found) == [("90", "1", PreemptionCause.QUOTA)]
    assert not found.placements
    assert reason(found, "2").evidence == {"stopping": ["90"]}


@pytest.mark.parametrize(
    "fields", [{"preemptible": False}, {"priority": Priority.HIGH}, {"user": "v"}]
)
def test_work_that_may_not_be_stopped_is_of_another_or_is_as_urgent_goes_on(fields):
    found = a_full_quota([holds("90", "n1/0", **fields)], [urgent()], limit=1)
    assert not found.preemptions
    assert reason(found).code is ReasonCode.QUOTA_PROJECT


def test_work_of_another_project_has_nothing_to_do_with_it():
    runs = [holds("90", "n1/0", project="q"), holds("91", "n1/1", preemptible=False)]
    found = a_full_quota(runs, [urgent()], limit=1, quotas=[a_nominal("q", 4, used=1)])
    assert not found.preemptions
    assert reason(found).code is ReasonCode.QUOTA_PROJECT


def test_with_the_policy_project_work_of_other_members_stops_unless_it_is_protected():
    runs = [holds("90", "n1/0", user="v")]
    project = {"limit": 1, "quota_preemption": QuotaPreemption.PROJECT}
    assert stops(a_full_quota(runs, [urgent()], **project)) == [("90", "1", PreemptionCause.QUOTA)]
    young = [holds("90", "n1/0", user="v", since=60)]
    assert not a_full_quota(young, [urgent()], **project).preemptions


def test_own_work_stops_before_that_of_others():
    runs = [holds("90", "n1/0", user="v"), holds("91", "n1/1")]
    found = a_full_quota(runs, [urgent()], quota_preemption=QuotaPreemption.PROJECT)
    assert [stop.job for stop in found.preemptions] == ["91"]


@pytest.mark.parametrize(
    "policy",
    [{"quota_preemption": QuotaPreemption.OFF}, {"preemption": PreemptionMode.OFF}],
)
def test_the_policy_can_switch_it_off(policy):
    found = a_full_quota([holds("90", "n1/0")], [urgent()], limit=1, **policy)
    assert not found.preemptions
    assert reason(found).code is ReasonCode.QUOTA_PROJECT


def test_nobody_stops_in_vain():
    """The quota is one GPU short of the gang even without J-90."""
    runs = [holds("90", "n1/0"), holds("91", "n1/1", priority=Priority.HIGH)]
    found = a_full_quota(runs, [urgent(gpus=2)], limit=2)
    assert not found.preemptions
    assert reason(found).code is ReasonCode.QUOTA_PROJECT


def test_only_as_many_stop_as_give_enough():
    runs = [holds(str(90 + n), f"n1/{n}", since=10_000 - n) for n in range(3)]
    found = a_full_quota(runs, [urgent(gpus=2)], limit=3)
    assert [stop.job for stop in found.preemptions] == ["92", "91"]


def test_devices_that_are_short_as_well_come_from_others_of_a_lower_band():
    """Quota and one GPU from J-90, the second GPU from J-91 of another project."""
    runs = [holds("90", "n1/0"), holds("91", "n1/1", project="q")]
    found = a_full_quota(runs, [urgent(gpus=2)], limit=2, size=2)
    assert sorted(stops(found)) == [
        ("90", "1", PreemptionCause.QUOTA),
        ("91", "1", PreemptionCause.PRIORITY),
    ]


def test_a_cap_on_running_jobs_is_a_limit_like_a_quota():
    runs = [holds("90", "n1/0")]
    cluster = a_busy_cluster([4], running=runs, jobs=[urgent()])
    capped = replace(cluster, owners=(OwnerView("p", "u", max_running=1),))
    assert stops(plan_of(capped)) == [("90", "1", PreemptionCause.QUOTA)]
