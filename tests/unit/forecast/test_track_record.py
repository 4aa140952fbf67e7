"""How much an estimate may say, by what became of earlier ones of its kind."""

import pytest

from scheduler.core.forecast.calibration import MIN_RECORDS, EstimateRecord, WaitRange
from scheduler.core.forecast.track_record import UNTRIED, Disclosure, TrackRecord

HOUR = 3_600.0
WAITS = WaitRange(0.5 * HOUR, HOUR, 2 * HOUR)


def a_record(waited, *, started=True, kind="fair", told=WAITS):
    return EstimateRecord(WAITS, WAITS, waited * HOUR, started, kind, told)


def of(*waited, kind="fair", **fields):
    return TrackRecord.from_records([a_record(each, **fields) for each in waited], kind)


def test_before_there_are_enough_outcomes_the_range_is_told():
    assert of(*[9.0] * (MIN_RECORDS - 1)).disclosure is Disclosure.RANGE
    assert UNTRIED.disclosure is Disclosure.RANGE


@pytest.mark.parametrize(
    ("waited", "told"),
    [
        (1.4, Disclosure.RANGE),  # 1 h was said: off by 29 %
        (1.9, Disclosure.RANGE),  # by 47 %
        (0.6, Disclosure.BOUND),  # by 67 %, within the bound of 2 h
        (2.5, Disclosure.NOTHING),  # by 60 %, and beyond the bound
    ],
)
def test_off_by_more_than_half_of_the_wait_only_the_bound_is_told_if_it_held(waited, told):
    assert of(*[waited] * MIN_RECORDS).disclosure is told


def test_the_hit_rate_is_that_of_the_bounds_as_they_were_told():
    record = of(*[0.2] * 18, *[3.0] * 2)
    assert record.outcomes == 20
    assert record.hit_rate == pytest.approx(0.9)
    assert record.disclosure is Disclosure.BOUND
    wide = WaitRange(0.5 * HOUR, HOUR, 4 * HOUR)
    assert of(*[0.2] * 18, *[3.0] * 2, told=wide).hit_rate == 1.0


def test_one_that_still_waits_counts_only_once_it_is_overdue():
    assert of(*[1.0] * 20, started=False).outcomes == 0
    assert of(*[2.5] * 20, started=False).disclosure is Disclosure.NOTHING


def test_other_kinds_and_old_outcomes_do_not_count():
    far, near = [a_record(0.2)] * 80, [a_record(1.0)] * 60
    assert TrackRecord.from_records([*far, *near], "fair").disclosure is Disclosure.RANGE
    assert TrackRecord.from_records([*near, *far], "fair").disclosure is Disclosure.BOUND
    assert TrackRecord.from_records(far, "fifo").outcomes == 0


def test_waits_below_a_minute_have_no_error():
    """Said: an hour. It started at once, well within its bound: nobody was misled."""
    assert of(*[0.001] * 40).disclosure is Disclosure.RANGE
