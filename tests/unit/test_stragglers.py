"""The rule of stragglers: who lags the median, who cannot be judged, and what it says."""

import pytest

from portal.ranks.stragglers import (
    LAG_PERCENT,
    LAG_SECONDS,
    MIN_MINUTES,
    WINDOW_MINUTES,
    MeasuredDevice,
    RankStep,
    lags,
)

HOUR = 3_600


def devices(*percents: float, minutes: int = WINDOW_MINUTES) -> list[MeasuredDevice]:
    """One device of each rank."""
    return [MeasuredDevice(rank, 0, percent, minutes) for rank, percent in enumerate(percents)]


def steps(*numbers: int, interval: int = 1) -> list[RankStep]:
    return [RankStep(rank, step, step // interval) for rank, step in enumerate(numbers)]


def by_activity(*percents: float) -> list[int]:
    return sorted(lags(devices(*percents), [], metric="", running_seconds=HOUR))


def by_step(*numbers: int, interval: int = 1, seconds: float = HOUR) -> list[int]:
    rows = steps(*numbers, interval=interval)
    return sorted(lags([], rows, metric="loss", running_seconds=seconds))


@pytest.mark.parametrize(
    ("percents", "lagging"),
    [
        ((95, 96, 40, 97), [2]),
        ((95, 95 - LAG_PERCENT), [1]),
        ((95, 95 - LAG_PERCENT + 1), []),
        ((100, 0), [1]),
        ((90, 90, 10, 10), [2, 3]),
        # Most of the gang does nothing: that is an idle job, and the busy rank no straggler.
        ((0, 0, 0, 95), []),
        ((10, 12, 11, 13), []),
        ((5,), []),
        ((), []),
    ],
)
def test_a_rank_whose_device_is_far_less_active_than_the_median_lags(percents, lagging):
    assert by_activity(*percents) == lagging


def test_a_device_that_was_measured_too_briefly_is_not_judged_and_does_not_count():
    slow = [*devices(95, 96), MeasuredDevice(2, 0, 5, MIN_MINUTES - 1)]
    assert lags(slow, [], metric="", running_seconds=HOUR) == {}
    alone = [*devices(95), MeasuredDevice(1, 0, 5, MIN_MINUTES - 1)]
    assert lags(alone, [], metric="", running_seconds=HOUR) == {}


def test_one_slow_device_of_eight_makes_its_rank_a_straggler_and_is_named():
    eight = [MeasuredDevice(r, gpu, 96, 5) for r in (0, 1) for gpu in range(8)]
    eight[11] = MeasuredDevice(1, 3, 12.4, 5)
    [message] = lags(eight, [], metric="", running_seconds=HOUR)[1]
    assert message.text == (
        "GPU 3 of rank 1 was 12 % active over the last 5 min, the median of its gang 96 %"
    )


def test_devices_of_one_rank_alone_make_no_gang():
    one = [MeasuredDevice(0, 0, 96, 5), MeasuredDevice(0, 1, 3, 5)]
    assert lags(one, [], metric="", running_seconds=HOUR) == {}


@pytest.mark.parametrize(
    ("numbers", "interval", "lagging"),
    [
        ((1_000, 1_000, 900, 1_001), 1, [2]),
        # A minute of this gang is 17 steps: what arrives a little later is no lag.
        ((1_000, 1_000, 990, 1_001), 1, []),
        # Every rank reports each hundredth step, so one is always ahead.
        ((1_000, 900, 1_000, 1_000), 100, []),
        ((1_000, 800, 1_000, 1_000), 100, [1]),
        ((0, 0, 0), 1, []),
        ((7,), 1, []),
        ((1_000, 0), 1, [1]),
    ],
)
def test_a_rank_whose_last_step_is_far_behind_the_median_lags(numbers, interval, lagging):
    assert by_step(*numbers, interval=interval) == lagging


def test_in_its_first_minute_nobody_is_behind():
    assert by_step(100, 100, 50, seconds=LAG_SECONDS) == []
    assert by_step(100, 100, 50, seconds=0) == []
    assert by_step(100, 100, 50, seconds=LAG_SECONDS * 10) == [2]


def test_the_sentence_of_a_step_names_the_metric():
    [message] = lags([], steps(1_000, 10, 1_000), metric="train/loss", running_seconds=HOUR)[1]
    assert message.text == (
        "rank 1 last reported step 10 of train/loss, the median of its gang is 1000"
    )


def test_a_rank_may_lag_in_both():
    found = lags(devices(95, 10), steps(1_000, 10), metric="loss", running_seconds=HOUR)
    assert [rank for rank, messages in found.items() if len(messages) == 2] == [1]
