"""Who lends to whom, and what is told to who gets nothing: examples with a few projects."""

from dataclasses import replace

import pytest

from scheduler.core.model.reasons import ReasonCode
from scheduler.core.quota.accounts import QuotaAccounts
from scheduler.core.quota.holders import quota_models
from tests.support.quotas import GPU, a_nominal, a_run
from tests.support.snapshots import (
    A30,
    H200,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    placed,
    plan_of,
    reason,
)


def accounts_of(*quotas, **fields):
    return QuotaAccounts(replace(a_cluster(quotas=quotas), **fields))


def test_a_project_borrows_what_another_leaves_idle_and_lends():
    accounts = accounts_of(a_nominal("p", 2, used=2, borrow=4), a_nominal("q", 4, lend=3))
    assert accounts.limit_reason(a_job(), 3 * GPU) is None
    assert accounts.limit_reason(a_job(), 4 * GPU).code is ReasonCode.QUOTA_PROJECT


def test_a_project_borrows_no_more_than_it_may():
    accounts = accounts_of(a_nominal("p", 2, used=2, borrow=1), a_nominal("q", 4, lend=4))
    assert accounts.limit_reason(a_job(), GPU) is None
    accounts.charge("p", "u", GPU)
    said = accounts.limit_reason(a_job(), GPU)
    assert said.sentence == (
        "p may use 2 GPUs at once and has borrowed 1 more; it cannot borrow more, "
        "but this needs 1; 1 kept for jobs ahead"
    )
    assert said.evidence["borrowed_units"] == said.evidence["borrow_units"] == GPU


def test_what_is_left_and_what_more_can_be_borrowed_is_told():
    quotas = (a_nominal("p", 2, used=1, borrow=2), a_nominal("q", 1, lend=1))
    said = accounts_of(*quotas).limit_reason(a_job(), 3 * GPU)
    assert said.sentence == (
        "p may use 2 GPUs at once; 1 is left and 1 more can be borrowed now, but this needs 3"
    )
    assert said.evidence["may_borrow_units"] == GPU


def test_what_the_lender_uses_itself_is_not_lent():
    accounts = accounts_of(a_nominal("p", 2, used=2, borrow=4), a_nominal("q", 4, used=3, lend=4))
    assert accounts.limit_reason(a_job(), GPU) is None
    assert accounts.limit_reason(a_job(), 2 * GPU) is not None


def test_nothing_is_lent_twice():
    quotas = [a_nominal(p, 1, used=1, borrow=2) for p in "pqr"]
    accounts = accounts_of(*quotas, a_nominal("s", 2, lend=2))
    accounts.charge("p", "u", GPU)
    accounts.charge("q", "u", GPU)
    said = accounts.limit_reason(a_job(project="r"), GPU)
    assert said.sentence == (
        "r may use 1 GPU at once; nothing more can be borrowed now, but this needs 1; "
        "2 borrowed by other projects"
    )
    assert said.evidence["borrowed_by"] == {"p": GPU, "q": GPU}
    assert said.evidence["may_borrow_units"] == 0


def test_a_project_borrows_nothing_from_itself():
    accounts = accounts_of(a_nominal("p", 2, borrow=2, lend=2))
    assert accounts.limit_reason(a_job(), 2 * GPU) is None
    assert accounts.limit_reason(a_job(), 3 * GPU) is not None


def test_a_lender_has_its_limit_back_at_once_though_others_borrowed_it():
    accounts = accounts_of(a_nominal("p", 1, used=3, borrow=2), a_nominal("q", 2, lend=2))
    assert accounts.limit_reason(a_job(project="q"), 2 * GPU) is None
    accounts.charge("q", "u", 2 * GPU)
    assert accounts.max_borrowing("p") == 0
    assert accounts.limit_reason(a_job(), GPU).evidence["may_borrow_units"] == 0


def test_quotas_of_one_model_are_apart_from_those_of_another_and_of_all():
    accounts = accounts_of(
        a_nominal("p", 1, model="H200"), a_nominal("p", 2, model=A30), a_nominal("p", 8)
    )
    accounts.charge("p", "u", GPU, H200)
    said = accounts.limit_reason(a_job(), GPU, H200)
    assert said.sentence.startswith("p may use 1 H200 GPU at once: 0 are left, but this needs 1")
    assert accounts.limit_reason(a_job(), 2 * GPU, A30) is None
    assert accounts.limit_reason(a_job(), 3 * GPU, A30) is not None
    assert accounts.limit_reason(a_job(), 7 * GPU) is None
    assert accounts.limit_reason(a_job(), 8 * GPU) is not None


def test_a_quota_names_a_board_by_key_or_model_or_not_at_all():
    assert quota_models(H200) == ("", "H200-141GB", "H200")
    assert quota_models("Some GPU") == ("", "Some GPU")
    assert quota_models("") == ("",)


def test_a_user_goes_beyond_the_own_limit_only_where_that_user_may():
    plain = a_nominal("p", 1, user="u", used=1)
    accounts = accounts_of(plain, a_nominal("p", 8))
    assert accounts.limit_reason(a_job(), GPU).code is ReasonCode.QUOTA_USER
    accounts = accounts_of(replace(plain, borrow_units=GPU), a_nominal("p", 8))
    assert accounts.limit_reason(a_job(), GPU) is None
    assert "u in p may use 2 GPUs" in accounts.limit_reason(a_job(), 2 * GPU).sentence


def test_the_reason_says_who_holds_the_quota():
    running = (a_run("7", user="vera", gpus=3), a_run("8", user="kim"), a_run("9", project="q"))
    quota = a_nominal("p", 4, used=4)
    accounts = accounts_of(quota, running=running, nodes=(a_node(a_gpu()),))
    said = accounts.limit_reason(a_job(), GPU, H200)
    assert said.sentence.endswith("0 are left, but this needs 1; in use by vera (3) and kim (1)")
    assert said.evidence["held_by"] == {"vera": 3 * GPU, "kim": GPU}


def test_of_a_quota_of_one_model_only_who_holds_that_model_is_named():
    """A quota may name the model or the board."""
    nodes = (a_node(a_gpu()), a_node(a_gpu(board=A30), name="n2"))
    running = (a_run("7", user="vera"), a_run("8", user="kim", gpu="n2/0"))
    for model in ("H200", H200):
        quota = a_nominal("p", 1, used=1, model=model)
        said = accounts_of(quota, running=running, nodes=nodes).limit_reason(a_job(), GPU, H200)
        assert said.evidence["held_by"] == {"vera": GPU}


def test_the_next_pass_says_who_holds_what_by_then():
    quota, nodes = a_nominal("p", 4, used=4), (a_node(a_gpu()),)
    first = replace(a_cluster(quotas=[quota]), running=(a_run("7", user="vera"),), nodes=nodes)
    before = QuotaAccounts(first)
    assert before.limit_reason(a_job(), GPU, H200).evidence["held_by"] == {"vera": GPU}
    again = QuotaAccounts(replace(first, jobs=()), before)
    assert again.limit_reason(a_job(), GPU, H200).evidence["held_by"] == {"vera": GPU}
    later = QuotaAccounts(replace(first, running=(a_run("8", user="otto"),)), again)
    assert later.limit_reason(a_job(), GPU, H200).evidence["held_by"] == {"otto": GPU}


@pytest.mark.parametrize("user", ["", "u"])
def test_what_the_pass_keeps_for_jobs_ahead_is_told_apart_from_what_is_held(user):
    """Whoever reads "held now" looks for running jobs, and finds none for what is kept."""
    quota = a_nominal("p", 4, user=user, used=1)
    accounts = accounts_of(quota, running=(a_run("7"),), nodes=(a_node(a_gpu()),))
    undo = accounts.charge("p", "u", 2 * GPU, H200)
    said = accounts.limit_reason(a_job(), 2 * GPU, H200)
    assert "1 is left, but this needs 2; 2 kept for jobs ahead" in said.sentence
    assert (said.evidence["used_units"], said.evidence["promised_units"]) == (GPU, 2 * GPU)
    assert said.evidence.get("held_by", {"u": GPU}) == {"u": GPU}
    undo()
    assert accounts.limit_reason(a_job(), 3 * GPU) is None
    assert "promised_units" not in accounts.limit_reason(a_job(), 4 * GPU).evidence


def test_what_stops_in_this_pass_is_held_until_it_has_ended():
    accounts = accounts_of(a_nominal("p", 2, used=2))
    accounts.charge("p", "vera", -GPU, H200)
    said = accounts.limit_reason(a_job(), 2 * GPU, H200)
    assert said.evidence["used_units"] == 2 * GPU
    assert "promised_units" not in said.evidence
    assert "1 is left" in said.sentence


def test_many_holders_are_told_in_short_and_listed_in_the_evidence():
    running = tuple(a_run(str(n), user=user) for n, user in enumerate("abcde"))
    accounts = accounts_of(a_nominal("p", 5, used=5), running=running, nodes=(a_node(a_gpu()),))
    said = accounts.limit_reason(a_job(), GPU)
    assert said.sentence.endswith("in use by a (1), b (1), c (1) and 2 others (2)")
    assert list(said.evidence["held_by"]) == list("abcde")


def test_a_project_without_a_quota_has_none_to_take_back_and_none_to_wait_for():
    accounts = accounts_of(a_nominal("q", 1))
    assert accounts.limit_reason(a_job(), 100 * GPU) is None
    assert not accounts.is_within_nominal("p", GPU)
    assert accounts.is_within_nominal("q", GPU)
    assert not accounts.is_within_nominal("q", 2 * GPU)
    assert accounts.borrowed("p") == 0


def test_a_project_that_is_over_one_of_its_quotas_takes_nothing_back_by_another():
    accounts = accounts_of(a_nominal("p", 4, model="H200"), a_nominal("p", 1, used=1))
    assert not accounts.is_within_nominal("p", GPU, H200)
    accounts = accounts_of(a_nominal("p", 1, used=1, model="H200"), a_nominal("p", 4, used=1))
    assert not accounts.is_within_nominal("p", GPU, H200)
    assert accounts.is_within_nominal("p", GPU, A30)


def test_there_is_an_account_only_where_somebody_gave_a_quota():
    assert not accounts_of()
    assert accounts_of(a_nominal("p", 1, model="H200"))
    assert accounts_of(a_nominal("p", 1, model="H200")).account(("p", "")) is None
    assert accounts_of(a_nominal("p", 1)).account(("p", "")).limit == GPU


NODE = a_node(*[a_gpu()] * 8)


def test_the_planner_places_what_is_borrowed_and_holds_the_rest():
    jobs = [a_job(str(n), gpus=1) for n in range(1, 6)]
    quotas = (a_nominal("p", 1, borrow=8), a_nominal("q", 4, used=1, lend=2))
    found = plan_of(a_cluster(NODE, jobs=jobs, quotas=quotas))
    assert placed(found) == ["1", "2", "3"]
    assert "p may use 1 GPU at once and has borrowed 2 more" in reason(found, "4").sentence


@pytest.mark.parametrize(("lend", "never"), [(1, True), (2, False)])
def test_what_nobody_would_ever_lend_can_never_run(lend, never):
    quotas = (a_nominal("p", 1, borrow=4), a_nominal("q", 4, used=4, lend=lend))
    said = reason(plan_of(a_cluster(NODE, jobs=[a_job(gpus=3)], quotas=quotas)))
    assert (said.code is ReasonCode.IMPOSSIBLE) == never
    if never:
        assert "p may use at most 2. Request fewer" in said.sentence


def test_a_quota_of_one_model_makes_nothing_impossible_that_another_model_serves():
    cluster = a_cluster(
        a_node(a_gpu(), a_gpu(board=A30)),
        jobs=[a_job(gpus=1), a_job("2", gpus=1, models=("H200",))],
        quotas=(a_nominal("p", 0, model="H200"),),
    )
    found = plan_of(cluster)
    assert placed(found) == ["1"]
    said = reason(found, "2")
    assert said.code is ReasonCode.IMPOSSIBLE
    assert "p may use at most 0 H200 GPUs" in said.sentence
