"""When a GPU that refuses is tried again: ever more seldom, and after five minutes without work."""

import pytest

from agents.facts.partitions import PartitionProblem
from agents.partitioning.backoff import (
    MAX_PAUSE_SECONDS,
    QUARANTINE_SECONDS,
    QUARANTINED_PAUSE_SECONDS,
    Backoff,
    BackoffChange,
)

GPU = "GPU-1"
IN_USE = PartitionProblem(GPU, "in_use", "GPU-1 is in use")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def tries(backoff, clock, seconds, **options):
    """The moments, from now on, at which it was tried and failed; looked at twice a second."""
    found, began = [], clock.now
    while clock.now < began + seconds:
        if backoff.is_due(GPU):
            backoff.record_failure(GPU, IN_USE, **options)
            found.append(clock.now - began)
        clock.now += 0.5
    return found


def test_pauses_double_up_to_the_longest_one(clock):
    assert tries(Backoff(clock), clock, 90) == [0, 1, 3, 7, 15, 31, 51, 71]


def test_what_never_failed_or_has_worked_since_is_tried_at_once(clock):
    backoff = Backoff(clock)
    assert backoff.is_due(GPU)
    tries(backoff, clock, 60)
    assert backoff.record_success(GPU) is BackoffChange.NO_CHANGE
    assert backoff.is_due(GPU) and backoff.problems() == []
    assert backoff.record_failure(GPU, IN_USE) is BackoffChange.BEGAN_TO_FAIL


def test_gpus_wait_each_for_itself(clock):
    backoff = Backoff(clock)
    backoff.record_failure(GPU, IN_USE)
    assert not backoff.is_due(GPU)
    assert backoff.is_due("GPU-2")


def test_after_five_minutes_it_is_quarantined_once_and_tried_slowly(clock):
    backoff = Backoff(clock)
    tries(backoff, clock, QUARANTINE_SECONDS)
    assert [problem.code for problem in backoff.problems()] == ["in_use"]
    clock.now += MAX_PAUSE_SECONDS
    assert backoff.record_failure(GPU, IN_USE) is BackoffChange.QUARANTINED
    (problem,) = backoff.problems()
    assert problem.code == "quarantined"
    assert "5 minutes" in problem.sentence and IN_USE.sentence in problem.sentence
    clock.now += QUARANTINED_PAUSE_SECONDS - 1
    assert not backoff.is_due(GPU)
    clock.now += 1
    assert backoff.is_due(GPU)
    assert backoff.record_failure(GPU, IN_USE) is BackoffChange.NO_CHANGE


def test_it_leaves_quarantine_by_the_first_thing_that_works(clock):
    backoff = Backoff(clock)
    tries(backoff, clock, 2 * QUARANTINE_SECONDS)
    assert backoff.record_success(GPU) is BackoffChange.RELEASED
    assert backoff.problems() == []


def test_the_loop_sleeps_until_something_is_due_and_never_spins(clock):
    backoff = Backoff(clock)
    assert backoff.seconds_until_due(5.0) == 5.0
    backoff.record_failure(GPU, IN_USE)
    backoff.record_failure(GPU, IN_USE)
    assert backoff.seconds_until_due(5.0) == 2.0
    clock.now += 100
    assert backoff.is_due(GPU) and backoff.seconds_until_due(5.0) == 1.0


def test_what_waits_for_a_persons_hand_is_no_quarantine(clock):
    backoff = Backoff(clock)
    moments = tries(backoff, clock, 2 * QUARANTINE_SECONDS, needs_person=True)
    assert moments[:3] == [0, QUARANTINED_PAUSE_SECONDS, 2 * QUARANTINED_PAUSE_SECONDS]
    assert [problem.code for problem in backoff.problems()] == ["in_use"]
