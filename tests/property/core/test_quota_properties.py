"""Whatever is asked in whatever order: quotas hold, borrowing is lent, reclaim gives it back.

The rules are counted from the limits and what was placed; the accounts are not asked for them.
"""

from collections import Counter
from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.snapshot import (
    BudgetView,
    ClusterSnapshot,
    OwnerView,
    Priority,
    QuotaView,
    RunningJob,
)
from scheduler.core.quota.accounts import QuotaAccounts
from scheduler.core.quota.reclaim import reclaim_candidates, smallest_victim_set
from tests.support.examples import examples
from tests.support.snapshots import H200, NOW, a_job

many = examples(200)
PROJECTS = "pqrs"
MODELS = ("", "H200")
AMOUNT = st.integers(0, 6)


@st.composite
def quotas(draw):
    """Of some projects, for all models or one; used by nobody yet, or as far as the limit."""
    found = []
    for project in PROJECTS:
        for model in MODELS:
            if draw(st.booleans()):
                limit = draw(AMOUNT)
                used = draw(st.integers(0, limit))
                found.append(QuotaView(project, "", limit, used, model, draw(AMOUNT), draw(AMOUNT)))
        if draw(st.booleans()):
            found.append(QuotaView(project, "u", draw(AMOUNT), 0))
    return tuple(found)


ASKED = st.tuples(
    st.sampled_from(PROJECTS), st.sampled_from("uv"), st.integers(1, 5), st.sampled_from([H200, ""])
)


def place_all(accounts, asked):
    """Place what may be placed, one by one."""
    for project, user, units, board in asked:
        job = a_job(project=project, user=user)
        if accounts.limit_reason(job, units, board) is None:
            accounts.charge(project, user, units, board)
            yield project, user, units, board


@many
@given(quotas=quotas(), asked=st.lists(ASKED, max_size=25))
def test_a_quota_is_exceeded_only_by_what_others_lend_at_that_moment(quotas, asked):
    used = {(q.project, q.user, q.model): q.used_units for q in quotas}
    for project, user, units, board in place_all(
        QuotaAccounts(ClusterSnapshot(0, quotas=quotas)), asked
    ):
        for key in ((p, u, m) for p in [project] for u in ("", user) for m in MODELS):
            if key in used and (not key[2] or board == H200):
                used[key] += units
        for quota in quotas:
            now = used[quota.project, quota.user, quota.model]
            assert now <= quota.limit_units + quota.borrow_units
            if quota.user:
                assert now <= quota.limit_units
        for model in MODELS if board else ("",):
            own = [q for q in quotas if q.model == model and not q.user]
            over = {q.project: used[q.project, "", model] - q.limit_units for q in own}
            borrowed = sum(max(0, each) for each in over.values())
            lent = sum(min(q.lend_units, max(0, -over[q.project])) for q in own)
            if over.get(project, 0) > 0:
                assert borrowed <= lent


@many
@given(quotas=quotas(), asked=st.lists(ASKED, max_size=25))
def test_who_stays_within_the_limit_is_never_refused_for_what_others_hold(quotas, asked):
    accounts = QuotaAccounts(ClusterSnapshot(0, quotas=quotas))
    list(place_all(accounts, asked))
    for quota in quotas:
        if quota.model or quota.user:
            continue
        job = a_job(project=quota.project, user="v")
        left = quota.limit_units - accounts.account((quota.project, "")).in_use
        if left > 0:
            assert accounts.limit_reason(job, left) is None


def everything(accounts):
    """What can be asked of the accounts, for every project, model and size."""
    told = []
    for project in PROJECTS:
        for user in "uv":
            job = a_job(project=project, user=user)
            for board in ("", H200):
                told += [accounts.limit_reason(job, units, board) for units in (1, 3, 9)]
                told += [accounts.is_within_nominal(project, 2, board)]
                told += [accounts.borrowed(project, board)]
        told += [accounts.max_borrowing(project, model) for model in MODELS]
    return told


@many
@given(
    quotas=quotas(),
    first=st.lists(ASKED, max_size=5),
    charges=st.lists(st.tuples(ASKED, st.integers(-4, 6), st.integers(0, 99)), max_size=12),
)
def test_charges_that_are_undone_leave_the_accounts_as_they_were(quotas, first, charges):
    budgets = (BudgetView("p", "", 50, 5, 5, 10), BudgetView("q", "u", 9, 0, 0, 10))
    owners = (OwnerView("p", "u", max_running=2), OwnerView("r", "", max_running=1))
    accounts = QuotaAccounts(ClusterSnapshot(0, quotas=quotas, budgets=budgets, owners=owners))
    list(place_all(accounts, first))
    before = everything(accounts)
    undone = [
        accounts.charge(project, user, units, board, seconds)
        for (project, user, _, board), units, seconds in charges
    ]
    for undo in undone[::-1]:
        undo()
    assert everything(accounts) == before


@many
@given(quotas=quotas(), charges=st.lists(ASKED, max_size=12))
def test_accounts_that_were_charged_are_those_of_a_snapshot_that_says_so(quotas, charges):
    """The sums that are updated equal the sums that are counted anew."""
    accounts = QuotaAccounts(ClusterSnapshot(0, quotas=quotas))
    used = Counter()
    for project, user, units, board in charges:
        accounts.charge(project, user, units, board)
        for who in ("", user):
            used[project, who, ""] += units
            used[project, who, "H200"] += units if board else 0
    later = tuple(
        replace(q, used_units=q.used_units + used[q.project, q.user, q.model]) for q in quotas
    )
    fresh = QuotaAccounts(ClusterSnapshot(0, quotas=later))
    for project in PROJECTS:
        for model in MODELS:
            assert accounts.max_borrowing(project, model) == fresh.max_borrowing(project, model)
            assert accounts.borrowed(project, model) == fresh.borrowed(project, model)


def a_run(number, project, units, priority, age):
    device = DevicePlacement("g", "gpu", "", 0, 8, units, 0)
    job = a_job(str(number), project=project, priority=priority, preemptible=True)
    return RunningJob(job, (ReplicaPlacement(0, "n", (device,)),), NOW - age)


@st.composite
def worlds(draw):
    """Projects whose nominal quotas are all that there is, and running work of most of them that
    does not need more than that together. The job is of the one that has nothing yet."""
    limits = {project: draw(st.integers(1, 6)) for project in PROJECTS}
    free = sum(limits.values())
    running = []
    for number in range(draw(st.integers(0, 14))):
        units = draw(st.integers(1, 3))
        if units <= free:
            free -= units
            priority = draw(st.sampled_from(list(Priority)))
            project = draw(st.sampled_from(PROJECTS[1:]))
            running.append(a_run(number, project, units, priority, draw(st.integers(0, 3))))
    held = Counter()
    for run in running:
        held[run.job.project] += units_of(run)
    quotas = tuple(QuotaView(p, "", limit, held[p], "", 99, 99) for p, limit in limits.items())
    return quotas, tuple(running), free, draw(st.integers(1, limits["p"]))


def units_of(run):
    return run.replicas[0].devices[0].units


def take_back(world):
    quotas, running, free, needed = world
    accounts = QuotaAccounts(ClusterSnapshot(NOW, quotas=quotas, running=running))

    def enough(some):
        return free + sum(units_of(run) for run in some) >= needed

    found = reclaim_candidates(running, accounts, a_job("99"), needed, H200, {"g": H200})
    return found, enough, smallest_victim_set(found, enough), accounts


@many
@given(world=worlds())
def test_a_lender_always_has_its_nominal_quota_back_after_one_reclaim(world):
    _, enough, chosen, _ = take_back(world)
    assert enough(chosen)


@many
@given(world=worlds())
def test_only_borrowers_give_and_no_fewer_of_the_victims_would_do(world):
    quotas, _, _, _ = world
    limits = {q.project: q.limit_units for q in quotas}
    held = {q.project: q.used_units for q in quotas}
    found, enough, chosen, _ = take_back(world)
    assert {run.job.id for run in chosen} <= {run.job.id for run in found}
    assert all(held[run.job.project] > limits[run.job.project] for run in chosen)
    for size in range(len(chosen)):
        assert not any(enough(some) for some in combinations(chosen, size))


@many
@given(world=worlds())
def test_candidates_bring_each_borrower_to_its_quota_and_leave_who_is_at_it(world):
    quotas, _, _, _ = world
    found, _, _, _ = take_back(world)
    above = {q.project: q.used_units - q.limit_units for q in quotas}
    for run in found:
        # At every step it is who is most above that gives.
        assert above[run.job.project] == max(above.values()) > 0
        above[run.job.project] -= units_of(run)
    assert all(each <= 0 for each in above.values())


@many
@given(world=worlds())
def test_the_order_in_which_running_work_is_listed_changes_no_victim(world):
    quotas, running, free, needed = world
    mirrored = (quotas[::-1], running[::-1], free, needed)
    assert take_back(world)[2] == take_back(mirrored)[2]
