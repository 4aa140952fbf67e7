"""Calibration repairs forecasts that are off, and the measures say how good they were."""

import numpy as np
import pytest

from scheduler.core.forecast.accuracy import EvaluatedEstimate, forecast_accuracy
from scheduler.core.forecast.calibration import (
    MIN_RECORDS,
    UNTRIED_FACTOR,
    Corrections,
    EstimateRecord,
    WaitRange,
)


def calibrate(own, records, kind=""):
    return Corrections.from_records(records, kind).apply(own)


def estimate_record(own, waited, *, started=True, calibrated=None, kind=""):
    return EstimateRecord(own, calibrated or own, waited, started, kind)


def online(owns, actuals, kind=""):
    """Forecasts made one after the other; each one is answered before the next."""
    history, told = [], []
    for own, actual in zip(owns, actuals, strict=True):
        answer = calibrate(own, history, kind)
        told.append((answer.published, actual))
        history.append(EstimateRecord(own, answer.calibrated, actual, True, kind))
    return told


def test_with_too_few_answers_a_forecast_is_told_as_it_is_with_a_wider_bound():
    own = WaitRange(100.0, 200.0, 300.0)
    wide = WaitRange(100.0, 200.0, 300.0 * UNTRIED_FACTOR)
    history = [estimate_record(own, 1_000.0)] * (MIN_RECORDS - 1)
    assert calibrate(own, history).published == wide
    assert calibrate(own, []).published == wide
    assert (
        calibrate(own, [estimate_record(own, 210.0)] * 40).published.pessimistic < own.pessimistic
    )


def test_a_forecast_that_is_off_by_a_factor_is_repaired():
    owns = [WaitRange(500.0 + i, 600.0 + i, 700.0 + i) for i in range(100)]
    told = online(owns, [3 * own.expected for own in owns])
    after = told[40:]
    assert forecast_accuracy(after).median_error_pct <= 5
    assert forecast_accuracy(after).coverage_pct == 100
    assert forecast_accuracy(zip(owns, [a for _, a in told], strict=True)).coverage_pct == 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [0.2, 1.0, 6.0])
def test_the_bound_holds_in_nine_of_ten_cases_where_nothing_drifts(seed, factor):
    draws = np.random.default_rng(seed)
    middle = np.exp(draws.normal(9, 1, 600))
    owns = [WaitRange(m * 0.8, m, m * 1.2) for m in middle]
    actuals = middle * factor * np.exp(draws.normal(0, 0.8, 600))
    told = online(owns, actuals.tolist())[100:]
    found = forecast_accuracy(told)
    assert found.coverage_pct >= 92
    assert found.optimistic_pct >= 80
    assert found.median_error_pct <= 60


def test_a_forecast_that_is_right_is_left_nearly_alone():
    draws = np.random.default_rng(1)
    middle = np.exp(draws.normal(9, 1, 300))
    owns = [WaitRange(m * 0.99, m, m * 1.01) for m in middle]
    told = online(owns, (middle * np.exp(draws.normal(0, 0.004, 300))).tolist())
    assert forecast_accuracy(told).tightness == pytest.approx(1.01, abs=0.02)
    assert forecast_accuracy(told).median_error_pct < 1


def test_open_questions_beyond_their_bound_count_before_they_are_answered():
    own = WaitRange(100.0, 200.0, 300.0)
    still = [estimate_record(own, 3_000.0, started=False)] * 40
    assert calibrate(own, still).published.pessimistic == pytest.approx(3_000)
    young = [estimate_record(own, 50.0, started=False)] * 40
    assert calibrate(own, young).published.expected == own.expected
    assert calibrate(own, young).published.pessimistic == 300.0 * UNTRIED_FACTOR


def test_each_kind_learns_from_its_own_answers():
    own = WaitRange(100.0, 200.0, 300.0)
    history = [estimate_record(own, 400.0, kind="fifo")] * 20 + [
        estimate_record(own, 2_000.0, kind="fair")
    ] * 20
    assert calibrate(own, history, "fifo").published.expected == pytest.approx(400)
    assert calibrate(own, history, "fair").published.expected == pytest.approx(2_000)


def test_where_calibration_did_worse_lately_it_is_not_told():
    own = WaitRange(100.0, 200.0, 400.0)
    bad = WaitRange(1.0, 2.0, 3.0)
    history = [estimate_record(own, 200.0, calibrated=bad)] * 40
    answer = calibrate(own, history)
    assert answer.published.expected == own.expected
    assert answer.published.pessimistic == own.pessimistic


def test_the_three_values_stay_in_order():
    own = WaitRange(100.0, 200.0, 300.0)
    history = [estimate_record(own, waited) for waited in (10.0, 5_000.0) * 20]
    told = calibrate(own, history).published
    assert told.optimistic <= told.expected <= told.pessimistic


def test_accuracy_counts_jobs_that_waited_a_minute():
    told = WaitRange(100.0, 200.0, 300.0)
    found = forecast_accuracy(
        [(told, 59.0), (told, 100.0), (told, 160.0), (told, 360.0), (told, 361.0)]
    )
    assert found.estimates == 4
    assert found.coverage_pct == 75.0
    assert found.optimistic_pct == 100.0
    # |200 - actual| / actual: 100 %, 25 %, 44 %, 45 %.
    assert found.median_error_pct == pytest.approx(44.5, abs=0.1)
    assert forecast_accuracy([(told, 10.0)]) is None


def test_a_question_waits_until_it_is_answered():
    own = WaitRange(1.0, 2.0, 3.0)
    question = EvaluatedEstimate(100.0, own, own, own)
    assert question.record(150.0, None) == EstimateRecord(own, own, 50.0, False)
    assert question.record(500.0, 170.0) == EstimateRecord(own, own, 70.0, True)
