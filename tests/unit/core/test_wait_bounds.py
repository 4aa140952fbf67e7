"""When waits end at the latest: quota, cap, budget, dependency, reservation; and who ends then."""

from dataclasses import replace

import pytest

from agents.contract.moments import write_latest, write_moment
from scheduler.core.explain.bounds import WaitBound, WaitBounds
from scheduler.core.forecast.pass_estimates import after_plan
from scheduler.core.model.snapshot import BudgetView, OwnerView, Priority
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.quotas import GPU, a_nominal
from tests.support.snapshots import NOW, plan_of, reason

HOUR = 3_600


def holds(id, *gpus, left=HOUR, **fields):
    """A running job with `left` seconds of its limit."""
    limit = 10 * HOUR
    job = waiting(id, gpus=len(gpus), time_limit_seconds=limit, **fields)
    return a_run(job, *gpus, since=limit - left)


def a_world(running, jobs, *, limit=2, user_limit=None, borrow=0, others=(), **fields):
    def used(user=""):
        own = [r for r in running if r.job.project == "p" and user in ("", r.job.user)]
        return sum(len(run.replicas[0].devices) for run in own)

    quotas = [a_nominal("p", limit, used=used(), borrow=borrow), *others]
    if user_limit:
        quotas.append(a_nominal("p", user_limit, used=used("u"), user="u"))
    cluster = a_busy_cluster([8], running=running, jobs=jobs)
    return replace(cluster, quotas=tuple(quotas), **fields)


def bounds_of(world, expected=None, **policy):
    found = plan_of(world, **policy)
    bounds = WaitBounds(after_plan(world, found), found, expected or {})
    return {each.job: bounds.of(each) for each in found.deferrals}, found, bounds


def job_bound(world, job="1", **options):
    return bounds_of(world, **options)[0][job]


def test_quota_is_free_when_the_last_holder_that_has_to_ends_by_its_limit():
    runs = [holds("90", "n1/0", left=HOUR), holds("91", "n1/1", left=2 * HOUR)]
    one = job_bound(a_world(runs, [waiting("1")]))
    assert (one.at, one.jobs, one.is_certain) == (NOW + HOUR, ("90",), True)
    words = "It waits until J-90 (job-90) ends and enough of the quota is free"
    assert one.message.text == f"{words}: {write_latest(NOW + HOUR)} at the latest"
    both = job_bound(a_world(runs, [waiting("1", gpus=2)]))
    assert (both.at, both.jobs) == (NOW + 2 * HOUR, ("91",))


def test_what_a_job_that_starts_in_this_pass_will_hold_counts():
    runs = [holds("90", "n1/0", left=5 * HOUR)]
    first = waiting("1", time_limit_seconds=HOUR, queued_at=1)
    world = a_world(runs, [first, waiting("2", gpus=2, queued_at=2)], limit=2)
    assert job_bound(world, "2").at == NOW + 5 * HOUR


def test_other_jobs_that_wait_for_the_same_quota_come_first_for_sure():
    runs = [holds(str(90 + n), f"n1/{n}", left=(n + 1) * HOUR) for n in range(3)]
    jobs = [waiting("1"), waiting("2"), waiting("3", user="v")]
    found, _, _ = bounds_of(a_world(runs, jobs, limit=3))
    assert {id: bound.at for id, bound in found.items()} == dict.fromkeys("123", NOW + 3 * HOUR)
    assert all(bound.is_certain for bound in found.values())


def test_where_not_all_fit_the_time_is_told_with_its_condition():
    runs = [holds("90", "n1/0", left=HOUR)]
    bound = job_bound(a_world(runs, [waiting("1"), waiting("2")], limit=1))
    assert (bound.at, bound.is_certain) == (NOW + HOUR, False)
    assert "unless another job that waits for it comes first" in bound.message.text


def test_who_waits_for_a_person_takes_nothing_from_others():
    runs = [holds("90", "n1/0", left=HOUR)]
    held = waiting("2", hold_reason="wait for me")
    assert job_bound(a_world(runs, [waiting("1"), held], limit=1)).is_certain


def test_what_has_to_be_borrowed_has_no_time():
    runs = [holds("90", "n1/0")]
    lender = a_nominal("q", 8, used=8, lend=8)
    bound = job_bound(a_world(runs, [waiting("1", gpus=2)], limit=1, borrow=4, others=[lender]))
    assert (bound.at, bound.is_certain) == (None, False)
    assert "lend" in bound.message.text


def test_the_users_own_quota_has_its_own_holders():
    runs = [holds("90", "n1/0", left=HOUR, user="v"), holds("91", "n1/1", left=3 * HOUR)]
    bound = job_bound(a_world(runs, [waiting("1")], limit=8, user_limit=1))
    assert (bound.at, bound.jobs) == (NOW + 3 * HOUR, ("91",))


def test_a_quota_for_one_model_counts_only_its_gpus():
    runs = [holds("90", "n1/0", left=HOUR)]
    only = a_nominal("p", 1, used=1, model="H200")
    world = a_world(runs, [waiting("1")], limit=8, others=[only])
    assert job_bound(world).at == NOW + HOUR


def test_a_cap_is_met_when_the_first_of_the_running_jobs_ends():
    runs = [holds("90", "n1/0", left=2 * HOUR), holds("91", "n1/1", left=HOUR)]
    capped = (OwnerView("p", "u", max_running=2),)
    bound = job_bound(a_world(runs, [waiting("1")], limit=8, owners=capped))
    assert (bound.at, bound.jobs) == (NOW + HOUR, ("91",))
    assert "J-91 (job-91) ends and one more job may run" in bound.message.text


def test_a_budget_ends_at_its_end():
    budget = BudgetView("p", "", 10 * GPU, 0, 10 * GPU, NOW + 9 * HOUR)
    bound = job_bound(a_world([], [waiting("1")], limit=8, budgets=(budget,)))
    assert bound.at == NOW + 9 * HOUR
    assert "until this budget of p ends" in bound.message.text


def test_a_dependency_ends_by_its_limit_or_is_expected_to_start_or_nobody_knows():
    runs = [holds("90", "n1/0", left=HOUR), holds("91", "n1/1", left=2 * HOUR)]
    after = waiting("1", after=("90", "91"))
    bound = job_bound(a_world(runs, [after]))
    assert (bound.at, bound.jobs, bound.is_certain) == (NOW + 2 * HOUR, ("91",), True)

    waits = [waiting("2", hold_reason="later"), waiting("1", after=("2",))]
    unknown = job_bound(a_world(runs, waits))
    assert (unknown.at, unknown.is_certain) == (None, False)
    assert "until J-2 ends, which waits itself" in unknown.message.text


def test_a_dependency_that_is_expected_to_start_ends_a_time_limit_later():
    """Not at its start; and with several, the last end counts."""
    runs = [holds("90", "n1/0", left=HOUR), holds("91", "n1/1", left=2 * HOUR)]
    first = waiting("2", hold_reason="later", time_limit_seconds=HOUR)
    after = replace(waiting("1"), after=("2",))
    bound = job_bound(a_world(runs, [first, after]), expected={"2": NOW + 60})
    assert (bound.at, bound.jobs, bound.is_certain) == (NOW + HOUR + 60, ("2",), False)
    assert "if jobs start when they are expected to" in bound.message.text
    both = job_bound(
        a_world(runs, [first, replace(after, after=("2", "91"))]), expected={"2": NOW + 60}
    )
    assert (both.at, both.jobs, both.is_certain) == (NOW + 2 * HOUR, ("91",), False)


def test_a_reservation_is_a_bound():
    runs = [holds(str(90 + n), f"n1/{n}", left=HOUR) for n in range(8)]
    bound = job_bound(a_world(runs, [waiting("1")], limit=99))
    assert bound.at == NOW + HOUR
    assert bound.message.text.endswith("at the latest: a place is reserved for it")


def test_a_bound_is_told_rounded_up_to_the_minute():
    bound = WaitBound.by_time(NOW - NOW % 60 + 1, "bound.reserved")
    assert write_moment(NOW - NOW % 60 + 60) in bound.message.text


@pytest.mark.parametrize(("gpus", "stops"), [(1, ["91", "90"]), (2, ["90"]), (3, [])])
def test_own_jobs_that_alone_hold_enough_may_be_stopped_the_last_to_start_first(gpus, stops):
    runs = [holds("90", "n1/0", "n1/1", left=HOUR), holds("91", "n1/2", left=2 * HOUR)]
    runs += [holds("92", "n1/3", user="v")]
    world = a_world(runs, [waiting("1", gpus=gpus, priority=Priority.LOW)], limit=4)
    _, found, bounds = bounds_of(world)
    (deferral,) = found.deferrals
    assert reason(found).code == "quota_project"
    assert [run.job.id for run in bounds.stops(deferral)] == stops
