"""Fair shares, by examples that can be worked out on paper."""

import math

import pytest

from scheduler.core.model.snapshot import OwnerView
from scheduler.core.queue.fairshare import ClusterTotals, FairShares, cluster_totals, decayed
from tests.support.snapshots import UNITS_PER_GPU, a_cluster, a_gpu, a_node, away

DAY = 86_400
HALF_LIFE = 7 * DAY
WINDOW = HALF_LIFE / math.log(2)
TEN_GPUS = ClusterTotals(10 * UNITS_PER_GPU, 100_000, 1_000_000)


def an_owner(project, user="", *, weight=1, gpus=0.0, cpus=0.0):
    """`gpus`, `cpus`: what the owner used all the time, for ever."""
    units = round(gpus * UNITS_PER_GPU * WINDOW)
    return OwnerView(project, user, weight, units, round(cpus * 1_000 * WINDOW))


def shares_of(*owners, asking=()):
    return FairShares(owners, TEN_GPUS, waiting_owners=asking)


def test_who_used_exactly_its_share_all_the_time_has_factor_one():
    owners = [an_owner("p", weight=3, gpus=7.5), an_owner("q", weight=1, gpus=2.5)]
    owners += [an_owner("p", "u", gpus=5, weight=2), an_owner("p", "v", gpus=2.5)]
    shares = shares_of(*owners)
    for key in (("p", ""), ("q", ""), ("p", "u"), ("p", "v")):
        assert shares.factor(*key) == pytest.approx(1.0)


def test_twice_the_share_doubles_the_factor_and_no_use_at_all_halves_it():
    shares = shares_of(an_owner("p", gpus=10), asking=[("q", "u")])
    assert shares.factor("p", "") == pytest.approx(2.0)
    assert shares.factor("q", "u") == 0.5


def test_factors_are_bounded_however_much_was_used():
    small = an_owner("p", weight=1, gpus=1_000)
    shares = shares_of(small, an_owner("q", weight=100, gpus=1_000))
    assert shares.factor("p", "") == 64.0


def test_an_owner_with_weight_nought_is_last_and_nothing_is_divided_by_nought():
    shares = shares_of(an_owner("p", weight=0, gpus=1), an_owner("q", gpus=1))
    assert shares.factor("p", "") == 64.0
    assert shares.breakdown("p", "").share == 0.0
    assert shares.breakdown("q", "").share == 1.0


def test_the_dominant_resource_counts_not_the_gpus_alone():
    """p used a tenth of the GPUs and four tenths of the CPUs: four tenths."""
    shares = shares_of(an_owner("p", gpus=1, cpus=40), an_owner("q", gpus=3, cpus=10))
    assert shares.breakdown("p", "").use == pytest.approx(0.4)
    assert shares.breakdown("q", "").use == pytest.approx(0.3)
    assert shares.factor("q", "") < shares.factor("p", "")


def test_a_quiet_user_of_a_greedy_project_comes_between_its_colleague_and_others():
    owners = [an_owner("p", gpus=9), an_owner("q", gpus=1), an_owner("p", "greedy", gpus=9)]
    asking = [("p", "greedy"), ("p", "quiet"), ("q", "u")]
    shares = shares_of(*owners, asking=asking)
    quiet, greedy, other = (shares.factor(p, u) for p, u in [asking[1], asking[0], asking[2]])
    assert other < quiet < greedy


def test_members_who_are_away_cost_their_colleagues_nothing():
    alone = shares_of(an_owner("p", gpus=5), an_owner("q", gpus=5), an_owner("p", "u", gpus=5))
    members = [an_owner("p", f"away-{n}") for n in range(50)] + [an_owner("r")]
    many = shares_of(
        an_owner("p", gpus=5), an_owner("q", gpus=5), an_owner("p", "u", gpus=5), *members
    )
    assert many.factor("p", "u") == alone.factor("p", "u") == pytest.approx(1.0)


def test_use_from_long_ago_that_has_all_but_decayed_does_not_take_part():
    shares = shares_of(an_owner("p", gpus=10), an_owner("q", gpus=0.005))
    assert shares.breakdown("p", "").share == 1.0
    asking = shares_of(an_owner("p", gpus=10), an_owner("q", gpus=0.005), asking=[("q", "u")])
    assert asking.breakdown("p", "").share == 0.5


def test_a_project_used_at_least_what_its_users_did():
    shares = shares_of(an_owner("p", "u", gpus=2), an_owner("p", "v", gpus=3), an_owner("p"))
    assert shares.breakdown("p", "").use == pytest.approx(0.5)


def test_an_unknown_owner_counts_as_never_having_used_anything():
    shares = shares_of(an_owner("p", gpus=5))
    assert shares.breakdown("new", "who").use == 0.0
    assert shares.breakdown("new", "who").share == 0.5
    assert shares.factor("new", "who") == 0.5
    assert FairShares((), ClusterTotals(0, 0, 0)).factor("p", "u") == 0.5


def test_what_is_charged_in_the_pass_counts_for_the_user_and_the_project():
    shares = shares_of(asking=[("p", "u"), ("p", "v"), ("q", "w")])
    before = shares.factor("q", "w")
    shares.charge("p", "u", 10 * UNITS_PER_GPU, 1_000, 1_000, round(WINDOW))
    assert shares.breakdown("p", "").use == pytest.approx(1.0, abs=1e-5)
    assert shares.factor("p", "u") > shares.factor("p", "v") > before
    assert shares.factor("q", "w") == before


def test_half_is_left_after_one_half_life_and_all_of_it_at_once():
    assert decayed(1_000, HALF_LIFE, HALF_LIFE) == 500
    assert decayed(1_000, 2 * HALF_LIFE, HALF_LIFE) == 250
    assert decayed(1_000, 0, HALF_LIFE) == 1_000
    assert decayed(1_000, -5, HALF_LIFE) == 1_000
    assert decayed(1_000, HALF_LIFE // 2, HALF_LIFE) == 707


def test_the_capacity_counts_nodes_that_are_away():
    cluster = a_cluster(a_node(a_gpu(), a_gpu()), away(a_gpu(), name="n2"))
    assert cluster_totals(cluster) == ClusterTotals(3 * UNITS_PER_GPU, 128_000, 1_024_000)
