"""A job is idle only while each device was measured in each minute and did next to nothing."""

from datetime import UTC, datetime, timedelta

from portal.idle.judgement import IdleTime, MeasuredMinute, idle_time

NOW = datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def judged(*percents, devices=2, now=NOW, measured=2):
    """The percents of the last minutes, the newest last."""
    newest = now.replace(second=0) - MINUTE
    count = len(percents)
    minutes = [
        MeasuredMinute(newest - (count - 1 - n) * MINUTE, percent, measured)
        for n, percent in enumerate(percents)
    ]
    return idle_time(minutes, devices=devices, threshold_percent=5, now=now)


def minutes_ago(count: int) -> datetime:
    return NOW.replace(second=0) - count * MINUTE


def test_it_is_idle_since_the_last_minute_that_was_busy():
    assert judged(90, 2, 4, 0) == IdleTime(minutes_ago(3), 4)
    assert judged(0, 0, 5) is None


def test_a_minute_that_was_not_measured_ends_what_can_be_said():
    assert judged(0, None, 0, 0) == IdleTime(minutes_ago(2), 0)
    assert judged(0, 0, None) is None


def test_every_device_must_have_been_measured():
    assert judged(0, 0, 0, measured=1) is None
    assert judged(0, 0, devices=0) is None


def test_a_gap_in_the_minutes_ends_it_too_and_old_samples_say_nothing():
    newest = minutes_ago(1)
    minutes = [MeasuredMinute(newest - n * MINUTE, 0, 1) for n in (9, 8, 4, 3, 2, 1, 0)]
    idle = idle_time(minutes, devices=1, threshold_percent=5, now=NOW)
    assert idle == IdleTime(newest - 4 * MINUTE, 0)
    assert idle_time(minutes, devices=1, threshold_percent=5, now=NOW + 4 * MINUTE) is None
    assert idle_time([], devices=1, threshold_percent=5, now=NOW) is None
