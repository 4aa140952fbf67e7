"""When a GPU that refuses is tried again: ever more seldom, and after five minutes without work."""

import pytest

from agents.facts.partitions import PartitionProblem
from agents.partitioning.backoff import (
    LONGEST_PAUSE_SECONDS,
    QUARANTINE_SECONDS,
    QUARANTINED_PAUSE_SECONDS,
    News,
    Patience,
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


def tries(patience, clock, seconds, **options):
    """The moments, from now on, at which it was tried and failed; looked at twice a second."""
    found, began = [], clock.now
    while clock.now < began + seconds:
        if patience.is_due(GPU):
            patience.failed(GPU, IN_USE, **options)
            found.append(clock.now - began)
        clock.now += 0.5
    return found


def test_pauses_double_up_to_the_longest_one(clock):
    assert tries(Patience(clock), clock, 90) == [0, 1, 3, 7, 15, 31, 51, 71]


def test_what_never_failed_or_has_worked_since_is_tried_at_once(clock):
    patience = Patience(clock)
    assert patience.is_due(GPU)
    tries(patience, clock, 60)
    assert patience.worked(GPU) is News.NOTHING
    assert patience.is_due(GPU) and patience.problems() == []
    assert patience.failed(GPU, IN_USE) is News.BEGAN_TO_FAIL


def test_gpus_wait_each_for_itself(clock):
    patience = Patience(clock)
    patience.failed(GPU, IN_USE)
    assert not patience.is_due(GPU)
    assert patience.is_due("GPU-2")


def test_after_five_minutes_it_is_quarantined_once_and_tried_slowly(clock):
    patience = Patience(clock)
    tries(patience, clock, QUARANTINE_SECONDS)
    assert [problem.code for problem in patience.problems()] == ["in_use"]
    clock.now += LONGEST_PAUSE_SECONDS
    assert patience.failed(GPU, IN_USE) is News.QUARANTINED
    (problem,) = patience.problems()
    assert problem.code == "quarantined"
    assert "5 minutes" in problem.sentence and IN_USE.sentence in problem.sentence
    clock.now += QUARANTINED_PAUSE_SECONDS - 1
    assert not patience.is_due(GPU)
    clock.now += 1
    assert patience.is_due(GPU)
    assert patience.failed(GPU, IN_USE) is News.NOTHING


def test_it_leaves_quarantine_by_the_first_thing_that_works(clock):
    patience = Patience(clock)
    tries(patience, clock, 2 * QUARANTINE_SECONDS)
    assert patience.worked(GPU) is News.RELEASED
    assert patience.problems() == []


def test_the_loop_sleeps_until_something_is_due_and_never_spins(clock):
    patience = Patience(clock)
    assert patience.pause(5.0) == 5.0
    patience.failed(GPU, IN_USE)
    patience.failed(GPU, IN_USE)
    assert patience.pause(5.0) == 2.0
    clock.now += 100
    assert patience.is_due(GPU) and patience.pause(5.0) == 1.0


def test_what_waits_for_a_persons_hand_is_no_quarantine(clock):
    patience = Patience(clock)
    moments = tries(patience, clock, 2 * QUARANTINE_SECONDS, for_a_person=True)
    assert moments[:3] == [0, QUARANTINED_PAUSE_SECONDS, 2 * QUARANTINED_PAUSE_SECONDS]
    assert [problem.code for problem in patience.problems()] == ["in_use"]
