"""Hazards, indices and quantiles against cases worked out by hand."""

import numpy as np
import pytest

from scheduler.core.forecast import hazard as hz


def index_of(curve: np.ndarray, first: int = 0) -> float:
    return float(hz.gittins(curve, first, hz.WIDTHS)[0])


def a_curve(**by_bin: float) -> np.ndarray:
    curve = np.zeros(hz.BINS)
    for name, value in by_bin.items():
        curve[int(name.removeprefix("bin"))] = value
    curve[-1] = 1.0
    return curve


def test_bins_start_at_a_minute_and_grow_by_half() -> None:
    assert hz.EDGES[:4].tolist() == [0.0, 60.0, 90.0, 135.0]
    assert hz.EDGES[-1] == 9e6
    assert hz.bin_of(0) == 0
    assert hz.bin_of(59.9) == 0
    assert hz.bin_of(60) == 1
    assert hz.bin_of(1e12) == hz.BINS - 1


def test_without_shrinkage_the_hazard_is_kaplan_meiers() -> None:
    # 3 of 4 survive bin 0; of the 3, one is now in bin 1 (counts nowhere), one ends there, one
    # leaves it alive.
    ended = np.zeros(hz.BINS)
    survived = np.zeros(hz.BINS)
    ended[0], ended[1] = 1, 1
    survived[0], survived[1] = 3, 1
    curve = hz.hazard(ended, survived, hz.PRIOR, 0.0)
    assert curve[0] == pytest.approx(1 / 4)
    assert curve[1] == pytest.approx(1 / 2)
    assert curve[-1] == 1.0


def test_imagined_jobs_pull_a_hazard_towards_the_layer_before() -> None:
    ended = np.zeros(hz.BINS)
    ended[0] = 4
    towards = np.full(hz.BINS, 0.25)
    curve = hz.hazard(ended, np.zeros(hz.BINS), towards, 2.0)
    assert curve[0] == pytest.approx((4 + 2 * 0.25) / (4 + 2))
    assert curve[1] == pytest.approx(0.25)


def test_the_prior_makes_every_bin_as_likely_as_any_other() -> None:
    alive = np.concatenate([[1.0], np.cumprod(1 - hz.PRIOR)[:-1]])
    assert alive * hz.PRIOR == pytest.approx(np.full(hz.BINS, 1 / hz.BINS))


def test_a_fixed_run_time_has_an_index_that_grows_as_its_end_comes_near() -> None:
    curve = a_curve(bin5=1.0)
    # The sure end of bin 5 is reached by serving everything up to its middle.
    assert 1 / index_of(curve) == pytest.approx(hz.EDGES[5] + hz.WIDTHS[5] / 2)
    indices = [index_of(curve, first) for first in range(6)]
    assert indices == sorted(indices)


def test_a_run_time_without_memory_has_the_same_index_at_every_age() -> None:
    # The rate at which everything ends in the last bin; h / (w (1 - h/2)) = rate in every bin.
    rate = 2 / hz.WIDTHS[-1]
    curve = rate * hz.WIDTHS / (1 + rate * hz.WIDTHS / 2)
    assert curve[-1] == 1.0
    assert [index_of(curve, first) for first in range(hz.BINS)] == pytest.approx([rate] * hz.BINS)


def test_of_two_possible_run_times_the_index_stops_trying_after_the_short_one() -> None:
    curve = a_curve(bin0=0.5, bin20=1.0)
    short = 0.5 / (hz.WIDTHS[0] * (1 - 0.25))
    assert index_of(curve) == pytest.approx(short)
    # Once the short end did not come, only the long one is left.
    left = hz.EDGES[20] - hz.EDGES[1] + hz.WIDTHS[20] / 2
    assert index_of(curve, 1) == pytest.approx(1 / left)


def test_the_mean_is_the_service_until_the_end() -> None:
    mean = hz.gittins(a_curve(bin0=0.5, bin2=1.0), 0, hz.WIDTHS)[1]
    assert mean == pytest.approx(60 * 0.75 + 0.5 * 30 + 0.5 * 45 / 2)


def test_quantiles_of_what_remains_run_evenly_through_a_bin() -> None:
    curve = a_curve(bin0=0.5, bin1=1.0)
    assert hz.remaining(curve, 0, 0.25) == pytest.approx(30)
    assert hz.remaining(curve, 0, 0.5) == pytest.approx(60)
    assert hz.remaining(curve, 0, 0.75) == pytest.approx(75)
    assert hz.remaining(curve, 75, 0.5) == pytest.approx(7.5)


def test_an_end_speaks_of_the_ages_around_it() -> None:
    assert hz.ENDS[5, 3:8] == pytest.approx([1 / 9, 2 / 9, 3 / 9, 2 / 9, 1 / 9])
    assert hz.ENDS.sum(axis=1) == pytest.approx(np.ones(hz.BINS))
    assert hz.AT_RISK[5, :4] == pytest.approx([1, 1, 1, 1])
    assert hz.AT_RISK[5, 4:8] == pytest.approx([8 / 9, 6 / 9, 3 / 9, 1 / 9])
    assert hz.AT_RISK[5, 8:].tolist() == [0] * (hz.BINS - 8)
    assert hz.ENDS[0, :3] == pytest.approx([3 / 6, 2 / 6, 1 / 6])
