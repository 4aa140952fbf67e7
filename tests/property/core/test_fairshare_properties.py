"""Whatever was used by whom: shares add up, more use never pays, and time heals."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.core.model.snapshot import OwnerView
from scheduler.core.queue.fairshare import ClusterTotals, FairShares, decayed
from tests.support.examples import examples

many = examples(200)
CAPACITY = ClusterTotals(8 * 56_000, 256_000, 2_000_000)
WINDOW = round(7 * 86_400 / math.log(2))
NAMES = st.tuples(st.sampled_from("pqr"), st.sampled_from("uvw"))
USED = st.integers(0, 4).map(lambda n: n * WINDOW)
AMOUNTS = st.tuples(
    USED.map(lambda n: n * 56_000), USED.map(lambda n: n * 30_000), USED.map(lambda n: n * 250_000)
)
ASKED = st.tuples(NAMES, st.integers(0, 448_000), st.integers(0, 64_000), st.integers(0, 512_000))


@st.composite
def owners(draw):
    """Users with uses, and projects whose use is that of their users."""
    users = draw(st.dictionaries(NAMES, st.tuples(st.integers(1, 4), AMOUNTS), max_size=7))
    weights = draw(st.dictionaries(st.sampled_from("pqr"), st.integers(1, 4)))
    below = [OwnerView(*key, weight, *used) for key, (weight, used) in users.items()]
    return below + [OwnerView(project, "", weight) for project, weight in weights.items()]


def everyone(shares):
    projects, users = "pqr", "uvw"
    return {(p, u): shares.factor(p, u) for p in projects for u in ["", *users]}


@many
@given(owners=owners(), charges=st.lists(ASKED, max_size=6), seconds=st.integers(0, 90_000))
def test_factors_are_bounded_and_only_grow_in_a_pass(owners, charges, seconds):
    shares = FairShares(owners, CAPACITY)
    before = everyone(shares)
    for (project, user), *amounts in charges:
        shares.charge(project, user, *amounts, seconds)
        after = everyone(shares)
        assert all(after[key] >= before[key] for key in before)
        assert all(0.5 <= factor <= 64 for factor in after.values())
        # Nobody else's project is touched.
        assert all(after[key] == before[key] for key in before if key[0] != project)
        before = after


@many
@given(owners=owners(), asking=st.sets(NAMES, min_size=1))
def test_shares_of_all_projects_make_the_cluster_and_those_of_users_their_project(owners, asking):
    asking |= {(o.project, o.user) for o in owners if o.user}
    shares = FairShares(owners, CAPACITY, waiting_owners=asking)
    projects = {p for p, _ in asking}
    assume(all(o.project in projects for o in owners))
    assert sum(shares.breakdown(p, "").share for p in projects) == pytest.approx(1)
    for project in projects:
        of_users = sum(shares.breakdown(*key).share for key in asking if key[0] == project)
        assert of_users == pytest.approx(shares.breakdown(project, "").share)


@many
@given(
    seconds=st.integers(0, 3_000_000),
    part=st.integers(0, 100),
    amounts=st.tuples(st.integers(0, 448_000), st.integers(0, 64_000), st.integers(0, 512_000)),
)
def test_two_users_of_one_project_together_weigh_as_their_project(seconds, part, amounts):
    """Work split between two users weighs on the project as if one had done it, and the mean of
    the two users' own excess is that of the project."""
    asking = [("p", "u"), ("p", "v"), ("q", "w")]
    one, two = (FairShares((), CAPACITY, waiting_owners=asking) for _ in range(2))
    one.charge("p", "u", *amounts, seconds)
    first = part * seconds // 100
    two.charge("p", "u", *amounts, first)
    two.charge("p", "v", *amounts, seconds - first)
    assert two.factor("p", "") == pytest.approx(one.factor("p", ""))
    project, *users = (two.breakdown("p", user) for user in ("", "u", "v"))
    assert sum(u.use for u in users) == pytest.approx(project.use)
    assert sum(u.share for u in users) == pytest.approx(project.share)
    # Of two alike users each counts 1 + 1/2 times, so that exact use gives 1 (see parts()).
    ratios = [u.effective_use / u.share / 1.5 for u in users]
    assert sum(ratios) / 2 == pytest.approx(project.use / project.share)


@many
@given(uses=st.tuples(AMOUNTS, AMOUNTS))
def test_of_two_alike_projects_the_one_with_the_least_dominant_share_goes_first(uses):
    shares = FairShares(
        [OwnerView(p, "", 1, *used) for p, used in zip("pq", uses, strict=True)],
        CAPACITY,
        waiting_owners=[("p", "u"), ("q", "u")],
    )
    whole = (CAPACITY.units, CAPACITY.cpu_milli, CAPACITY.memory_mib)
    p, q = (max(u / c for u, c in zip(used, whole, strict=True)) for used in uses)
    first, second = shares.factor("p", "u"), shares.factor("q", "u")
    if p < q and not math.isclose(p, q):
        # Only at the upper bound are both alike.
        assert first < second or first == second == 64
    if math.isclose(p, q):
        assert first == pytest.approx(second)


@many
@given(mine=AMOUNTS, more=AMOUNTS, weight=st.integers(1, 4), other=AMOUNTS)
def test_having_used_more_of_anything_never_lowers_a_factor(mine, more, weight, other):
    asking = [("p", "u"), ("q", "u")]

    def factor(used):
        owners = [OwnerView("p", "u", weight, *used), OwnerView("q", "u", 1, *other)]
        return FairShares(owners, CAPACITY, waiting_owners=asking).factor("p", "u")

    together = tuple(a + b for a, b in zip(mine, more, strict=True))
    assert factor(together) >= factor(mine)


@many
@given(owners=owners(), asking=st.lists(NAMES, max_size=5))
def test_the_order_in_which_owners_are_listed_changes_nothing(owners, asking):
    listed = everyone(FairShares(owners, CAPACITY, waiting_owners=asking))
    assert everyone(FairShares(owners[::-1], CAPACITY, waiting_owners=asking[::-1])) == listed


@many
@given(
    amount=st.integers(0, 10**18),
    first=st.integers(0, 3_000_000),
    second=st.integers(0, 3_000_000),
    half_life=st.integers(1, 1_000_000),
)
def test_decay_in_two_steps_is_decay_in_one_and_a_half_life_halves(
    amount, first, second, half_life
):
    once = decayed(amount, first + second, half_life)
    twice = decayed(decayed(amount, first, half_life), second, half_life)
    assert abs(once - twice) <= 3 + amount * 2**-48
    assert decayed(amount, half_life, half_life) == amount // 2
    assert decayed(amount, first, half_life) >= decayed(amount, first + second, half_life)
