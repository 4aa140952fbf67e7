"""Run times behind limits: what ended runs alone would get wrong, all known limits put right."""

import numpy as np
import pytest

from scheduler.core.forecast.population import (
    COUNT,
    POINTS,
    ratio_points,
    remaining,
    run_time_distribution,
)
from scheduler.core.forecast.sampling import (
    MANY_RATIOS,
    MIN_RATIOS,
    run_time_chances,
    sample_history,
)
from tests.unit.forecast.queues import a_holding, a_queued

HOUR = 3_600.0
SAFETY = (1.0, 5.0)
"""Limits are run times times a factor between these."""


def a_cluster_of_jobs(seed, longest=200 * HOUR, count=1_500):
    """(run times, limits) of jobs that never run longer than `longest`."""
    draws = np.random.default_rng(seed)
    seconds = np.exp(draws.uniform(np.log(60), np.log(longest), count))
    return seconds, seconds * draws.uniform(*SAFETY, count)


def none():
    return np.zeros(0)


@pytest.mark.parametrize("seed", range(3))
def test_the_work_behind_waiting_limits_is_found_though_only_short_runs_have_ended(seed):
    seconds, limits = a_cluster_of_jobs(seed)
    ended = np.flatnonzero(seconds < 50 * HOUR)[:300]
    waits = np.setdiff1d(np.arange(len(seconds)), ended)
    ratios = seconds[ended] / limits[ended]
    chances = run_time_distribution(seconds[ended], ratios, limits[waits], np.zeros(len(waits)))
    draws = np.random.default_rng(seed)
    ages = np.zeros(len(waits))
    drawn = np.mean(
        [
            remaining(ages, limits[waits], ratios, chances, draws.random(len(waits))).sum()
            for _ in range(20)
        ]
    )
    truth = seconds[waits].sum()
    assert drawn == pytest.approx(truth, rel=0.1)
    assert ratios.mean() * limits[waits].sum() > 1.15 * truth


def test_a_run_that_is_already_longer_than_most_ratios_allow_runs_on_beyond_its_age():
    ages, limits = np.array([0.0, 90.0]), np.full(2, 100.0)
    ratios = np.array([0.1, 0.5, 0.95])
    even = np.full(COUNT, 1 / COUNT)
    for chance in (0.0, 0.5, 0.99):
        found = remaining(ages, limits, ratios, even, np.full(2, chance))
        assert found[1] == pytest.approx(5)
    assert remaining(ages, limits, ratios, even, np.full(2, 0.5))[0] == pytest.approx(50)


def test_where_no_ratio_leads_beyond_the_age_any_part_of_the_limit_may_be_left():
    one = np.array([95.0]), np.array([100.0]), np.array([0.5]), np.full(COUNT, 1 / COUNT)
    assert remaining(*one, np.array([0.4])) == pytest.approx([2.0])
    assert np.isfinite(run_time_distribution(none(), one[2], one[1], one[0])).all()


def test_chances_are_chances_and_no_run_time_is_impossible():
    found = run_time_distribution(none(), np.array([0.5]), none(), none())
    assert found.sum() == pytest.approx(1)
    assert (found > 0).all()
    ended = run_time_distribution(np.full(500, HOUR), np.array([0.5]), none(), none())
    assert ended.sum() == pytest.approx(1)
    assert (ended > 0).all()
    assert ended.max() > 0.4


def test_jobs_whose_limits_nobody_believes_do_not_tell_of_run_times():
    believed = [a_holding(1, 5 * HOUR), a_queued("1", 1, 5 * HOUR)]
    known = np.array([(2 * HOUR, 0.5)] * 20)
    others = [a_holding(1, 1e7, curve=0), a_queued("2", 1, 1e7, curve=0)]
    assert (
        run_time_chances(known, believed).tolist()
        == run_time_chances(known, believed + others).tolist()
    )


def test_many_ratios_are_stood_for_by_few():
    many = np.linspace(0, 1, 5_000)
    assert len(ratio_points(many)) == POINTS
    assert ratio_points(many).mean() == pytest.approx(0.5, abs=0.01)
    assert ratio_points(np.array([0.3, 0.1])).tolist() == [0.1, 0.3]


def test_runs_differ_in_the_share_of_limits_by_as_much_as_few_ended_runs_can_be_wrong():
    draws = np.random.default_rng(1)
    for count in (MIN_RATIOS, 30, MANY_RATIOS - 1):
        known = np.column_stack([np.arange(count) * 10.0, 1 / draws.uniform(1, 5, count)])
        shares = [sample_history(known, draws)[:, 1].mean() for _ in range(400)]
        error = known[:, 1].std() / np.sqrt(count)
        assert np.std(shares) == pytest.approx(error, rel=0.15)
        assert np.mean(shares) == pytest.approx(known[:, 1].mean(), abs=error / 5)


def test_of_a_long_history_each_run_knows_one_piece_in_the_order_of_limits():
    draws = np.random.default_rng(1)
    known = np.column_stack(
        [np.arange(MANY_RATIOS)[::-1] * 10.0, np.arange(MANY_RATIOS) / MANY_RATIOS]
    )
    for _ in range(50):
        part = sample_history(known, draws)
        assert (np.diff(part[:, 0]) == 10).all()
        assert 0.3 * MANY_RATIOS <= len(part) <= MANY_RATIOS
    assert sample_history(np.zeros((0, 2)), draws).shape == (0, 2)


def test_without_ratios_every_run_time_that_is_not_known_is_as_likely_as_the_others():
    assert np.ptp(run_time_chances(np.zeros((0, 2)), [])) == pytest.approx(0, abs=1e-3)
