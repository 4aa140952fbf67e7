"""What is learned of the way users set their limits."""

import numpy as np
import pytest

from scheduler.core.forecast.population import COUNT
from scheduler.core.forecast.ratios import MIN_RUNS, LimitRatios, remaining_seconds
from scheduler.core.forecast.sampling import remaining_by_ratio, sample_history

HOUR = 3_600.0


EVEN = np.full(COUNT, 1 / COUNT)
"""Nothing is known of run times, so only ratios count."""


def learned(*runs):
    ratios = LimitRatios()
    for user, ran, limit in runs:
        ratios.add(user, ran, limit)
    return ratios


def test_a_run_that_its_limit_cut_took_all_of_it():
    ratios = learned(("ada", 2 * HOUR, HOUR), ("ada", HOUR / 4, HOUR))
    assert ratios.values().tolist() == [[HOUR, 1.0], [HOUR, 0.25]]
    assert ratios.pairs() == ((HOUR, 1.0), (HOUR, 0.25))


def test_the_oldest_ratios_are_forgotten():
    ratios = LimitRatios(max_remembered=10)
    for i in range(100):
        ratios.add("ada", i + 1, 100)
    assert ratios.values()[:, 1].tolist() == [(i + 1) / 100 for i in range(90, 100)]


def test_limits_are_believed_until_there_are_runs_that_say_otherwise():
    wild = [("ada", 10.0 ** (1 + i % 4), 30 * 24 * HOUR) for i in range(MIN_RUNS)]
    assert learned(*wild[:-1]).is_believable("ada")
    assert not learned(*wild).is_believable("ada")
    assert learned(*wild).is_believable("bob")


def test_the_share_of_a_limit_moves_from_a_half_to_what_was_seen():
    assert LimitRatios().mean_ratio("ada") == 0.5
    assert learned(*[("ada", 20, 100)] * 5).mean_ratio("ada") == pytest.approx(0.35)


def test_what_remains_comes_from_the_ratios_that_lead_beyond_the_age():
    known = np.array([0.1, 0.2, 0.6, 0.8])
    assert remaining_seconds(known, 100, 0, 0.0) == pytest.approx(10)
    assert remaining_seconds(known, 100, 50, 0.0) == pytest.approx(10)
    assert remaining_seconds(known, 100, 50, 1.0) == pytest.approx(30)
    assert remaining_seconds(known, 100, 90, 0.5) is None


def test_draws_take_the_ratios_of_runs_with_the_very_same_limit():
    short = [(100.0, 0.9)] * 100
    long = [(1e6, 0.2)] * 100
    known = np.array(short + long)
    ages, limits = np.zeros(2), np.array([100.0, 1e6])
    for chance in (0.0, 0.5, 0.999):
        rest = remaining_by_ratio(ages, limits, known, EVEN, np.full(2, chance))
        assert rest == pytest.approx([90, 2e5])


def test_of_many_runs_with_the_same_limit_the_newest_count():
    known = np.array([(100.0, 0.9)] * 200 + [(100.0, 0.2)] * 40)
    assert remaining_by_ratio(
        np.zeros(1), np.array([100.0]), known, EVEN, np.zeros(1)
    ) == pytest.approx([20])


def test_draws_beyond_the_age_are_even_among_the_ratios_that_remain():
    known = np.array([(100.0, ratio) for ratio in (0.1, 0.5, 0.7, 0.9)])
    chances = (np.arange(300) + 0.5) / 300
    rest = remaining_by_ratio(np.full(300, 40.0), np.full(300, 100.0), known, EVEN, chances)
    values, counts = np.unique(rest.round(6), return_counts=True)
    assert values.tolist() == [10, 30, 50]
    assert counts.tolist() == [100, 100, 100]


def test_where_no_ratio_leads_beyond_the_age_any_rest_of_the_limit_may_be():
    known = np.array([(100.0, 0.1)] * 10)
    rest = remaining_by_ratio(np.array([80.0]), np.array([100.0]), known, EVEN, np.array([0.25]))
    assert rest == pytest.approx([5])


def test_each_run_knows_a_part_of_history_in_the_order_of_limits():
    known = np.array([(float(i % 7), 0.5) for i in range(100)])
    part = sample_history(known, np.random.default_rng(1))
    assert 30 <= len(part) <= 100
    assert (np.diff(part[:, 0]) >= 0).all()
