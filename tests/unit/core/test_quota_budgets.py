"""GPU-hour budgets and caps on running jobs."""

from dataclasses import replace

from scheduler.core.model.reasons import ReasonClass, ReasonCode
from scheduler.core.model.snapshot import BudgetView, OwnerView
from scheduler.core.quota.accounts import QuotaAccounts
from tests.support.quotas import a_run
from tests.support.snapshots import NOW, UNITS_PER_GPU, a_cluster, a_job, a_quota

GPU = UNITS_PER_GPU
HOUR = 3_600
# 1970-02-01
NEXT_MONTH = 31 * 86_400


def a_budget(hours, *, used=0, held=0, user="", ends_at=NEXT_MONTH):
    amounts = (round(each * GPU * HOUR) for each in (hours, used, held))
    return BudgetView("p", user, *amounts, ends_at)


def with_budgets(*budgets, **fields):
    return QuotaAccounts(replace(a_cluster(), budgets=budgets, **fields))


def test_a_job_that_fits_into_the_budget_by_its_limit_may_run():
    accounts = with_budgets(a_budget(100, used=90, held=6))
    assert accounts.limit_reason(a_job(time_limit_seconds=4 * HOUR), GPU) is None
    assert accounts.limit_reason(a_job(time_limit_seconds=4 * HOUR + 1), GPU) is not None


def test_the_reason_tells_the_hours_and_a_limit_that_would_fit():
    accounts = with_budgets(a_budget(100, used=90, held=6))
    said = accounts.limit_reason(a_job(time_limit_seconds=4 * HOUR), 2 * GPU)
    assert said.code is ReasonCode.BUDGET
    assert said.reason_class is ReasonClass.CHANGE
    assert said.sentence == (
        "p may use 100 GPU-hours until 1970-02-01 00:00 UTC: 90 used, 6 reserved for running jobs, "
        "4 left; this may take 8. A time limit of 2h would fit"
    )
    assert said.evidence == {
        "limit_unit_seconds": 100 * GPU * HOUR,
        "used_unit_seconds": 90 * GPU * HOUR,
        "held_unit_seconds": 6 * GPU * HOUR,
        "needed_unit_seconds": 8 * GPU * HOUR,
        "fitting_limit_seconds": 2 * HOUR,
        "ends_at": NEXT_MONTH,
    }
    fitting = a_job(time_limit_seconds=said.evidence["fitting_limit_seconds"])
    assert accounts.limit_reason(fitting, 2 * GPU) is None


def test_a_budget_that_is_used_up_suggests_no_limit():
    said = with_budgets(a_budget(10, used=12)).limit_reason(a_job(), GPU)
    assert "0 left" in said.sentence
    assert "would fit" not in said.sentence
    assert said.evidence["fitting_limit_seconds"] == 0
    assert said.unblocks == "Ask an admin for a larger budget"


def test_only_what_is_left_of_the_limit_counts_and_the_new_limit_counts_from_the_start():
    accounts = with_budgets(a_budget(2))
    job = a_job(time_limit_seconds=8 * HOUR, attained_seconds=6 * HOUR)
    assert accounts.limit_reason(job, GPU) is None
    said = accounts.limit_reason(job, 2 * GPU)
    assert "A time limit of 7h would fit" in said.sentence


def test_what_is_placed_in_the_pass_is_held_until_it_is_undone():
    accounts = with_budgets(a_budget(8))
    undo = accounts.charge("p", "other", GPU, seconds=5 * HOUR)
    assert accounts.limit_reason(a_job(), GPU).evidence["held_unit_seconds"] == 5 * GPU * HOUR
    undo()
    assert accounts.limit_reason(a_job(), GPU) is None


def test_a_users_own_budget_counts_beside_the_projects():
    accounts = with_budgets(a_budget(100), a_budget(1, user="u"))
    assert accounts.limit_reason(a_job(), GPU).sentence.startswith("u in p may use 1 GPU-hours")
    assert accounts.limit_reason(a_job(user="v"), GPU) is None


def test_a_budget_whose_time_is_over_holds_nobody_back():
    assert with_budgets(a_budget(1, ends_at=NOW)).limit_reason(a_job(), GPU) is None


def test_an_owner_with_as_many_jobs_as_allowed_waits_for_one_to_end():
    owners = (OwnerView("p", "u", max_running=2),)
    accounts = with_budgets(owners=owners, running=(a_run("7"), a_run("8", user="v")))
    assert accounts.limit_reason(a_job(), GPU) is None
    undo = accounts.charge("p", "u", GPU)
    said = accounts.limit_reason(a_job(), GPU)
    assert said.code is ReasonCode.PENDING_LIMIT
    assert said.sentence == "u in p may run 2 jobs at once and is running 2"
    assert said.evidence == {"max_running": 2, "running": 2}
    assert accounts.limit_reason(a_job(user="v"), GPU) is None
    undo()
    assert accounts.limit_reason(a_job(), GPU) is None


def test_a_project_may_have_a_cap_and_a_job_that_ended_makes_room_under_it():
    owners = (OwnerView("p", "", max_running=1), OwnerView("p", "u"))
    accounts = with_budgets(owners=owners, running=(a_run("7", user="v"),))
    assert (
        accounts.limit_reason(a_job(), GPU).sentence == "p may run 1 job at once and is running 1"
    )
    accounts.charge("p", "v", -GPU)
    assert accounts.limit_reason(a_job(), GPU) is None


def test_the_quota_is_told_before_the_cap_and_the_cap_before_the_budget():
    accounts = with_budgets(
        a_budget(1),
        owners=(OwnerView("p", "u", max_running=1),),
        running=(a_run("7"),),
        quotas=(a_quota(gpus=1, used=1),),
    )
    assert accounts.limit_reason(a_job(), GPU).code is ReasonCode.QUOTA_PROJECT
    accounts.charge("p", "v", -GPU)
    assert accounts.limit_reason(a_job(), GPU).code is ReasonCode.PENDING_LIMIT
    accounts.charge("p", "u", -GPU)
    assert accounts.limit_reason(a_job(), GPU).code is ReasonCode.BUDGET
