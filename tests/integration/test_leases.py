"""Work under a lease is done by one worker at a time, and again if it was rung meanwhile."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.leases.models import TaskLease
from portal.leases.services import (
    continuation_read,
    continuation_write,
    done_within,
    run_exclusively,
)
from scheduler import sweeper, tasks

pytestmark = pytest.mark.django_db


def test_the_work_is_done_once_and_stamped():
    rounds = []
    assert run_exclusively(name="plan", work=lambda: rounds.append(1))
    row = TaskLease.objects.get()
    assert (rounds, row.token, row.expires_at) == ([1], "", None)
    assert row.stamped_at is not None


def test_the_first_use_of_a_lease_is_one_round():
    rounds = []
    TaskLease.objects.all().delete()
    run_exclusively(name="plan", work=lambda: rounds.append(1))
    assert (len(rounds), TaskLease.objects.get().rung) == (1, False)


def test_a_round_that_is_not_due_is_not_stamped():
    assert run_exclusively(name="plan", is_due=lambda: False, work=lambda: pytest.fail("not due"))
    row = TaskLease.objects.get()
    assert (row.stamped_at, row.expires_at) == (None, None)


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_worker_whose_clock_is_wrong_takes_no_lease_over(monkeypatch, minutes):
    """The row is compared with the clock of the database."""
    now, taken = timezone.now, []

    def work():
        with monkeypatch.context() as wrong:
            wrong.setattr(timezone, "now", lambda: now() + timedelta(minutes=minutes))
            taken.append(run_exclusively(name="plan", work=lambda: None))
        TaskLease.objects.update(rung=False)

    assert run_exclusively(name="plan", work=work)
    assert taken == [False]


def test_tasks_of_the_clock_that_waited_together_do_their_work_once(monkeypatch):
    sweeps = []
    monkeypatch.setattr(sweeper, "sweep", lambda: sweeps.append(1))
    assert [tasks.sweep(), tasks.sweep(), tasks.sweep()] == [True] * 3
    assert len(sweeps) == 1
    past = timezone.now() - timedelta(seconds=tasks.SWEEP_PAUSE_SECONDS + 0.1)
    TaskLease.objects.filter(name="sweep").update(stamped_at=past)
    assert not done_within("sweep", tasks.SWEEP_PAUSE_SECONDS)
    tasks.sweep()
    assert len(sweeps) == 2


def test_a_second_worker_does_nothing_and_the_first_does_one_more_round():
    rounds, answers = [], []

    def work():
        rounds.append(1)
        if len(rounds) == 1:
            answers.append(run_exclusively(name="plan", work=lambda: rounds.append("second")))

    assert run_exclusively(name="plan", work=work)
    assert (rounds, answers) == ([1, 1], [False])


def test_rings_without_end_do_not_keep_a_worker_for_ever():
    rounds = []

    def work():
        rounds.append(1)
        TaskLease.objects.update(rung=True)

    assert run_exclusively(name="plan", work=work, rounds=3)
    assert len(rounds) == 3
    assert TaskLease.objects.get().token == ""


def test_work_that_fails_gives_the_lease_back():
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_exclusively(name="plan", work=fail)
    assert run_exclusively(name="plan", work=lambda: None)


@pytest.mark.parametrize(("seconds", "is_taken_over"), [(-1, True), (30, False)])
def test_the_lease_of_a_dead_worker_is_taken_over_when_it_expires(seconds, is_taken_over):
    expires_at = timezone.now() + timedelta(seconds=seconds)
    TaskLease.objects.create(name="plan", token="dead", expires_at=expires_at)
    assert run_exclusively(name="plan", work=lambda: None) is is_taken_over


def test_a_worker_whose_time_is_up_leaves_the_next_round_to_a_task_of_its_own():
    rounds, rings = [], []

    def work():
        rounds.append(1)
        TaskLease.objects.update(rung=True)

    def ring_again():
        rings.append(TaskLease.objects.get().token)

    assert run_exclusively(name="plan", work=work, seconds=0, ring_again=ring_again)
    assert (rounds, rings) == ([1], [""]), "it rings when the lease is free again"


def test_a_ring_that_is_left_after_the_last_round_is_not_lost():
    rings = []

    def work():
        TaskLease.objects.update(rung=True)

    run_exclusively(name="plan", work=work, rounds=2, ring_again=lambda: rings.append(1))
    assert rings == [1]
    run_exclusively(name="sweep", work=lambda: None, seconds=0, ring_again=lambda: rings.append(2))
    assert rings == [1], "no ring, no further task"


def test_a_continuation_is_kept_beside_the_lease():
    assert continuation_read("plan") is None
    run_exclusively(name="plan", work=lambda: continuation_write("plan", {"considered": ["1"]}))
    assert continuation_read("plan") == {"considered": ["1"]}
    run_exclusively(name="plan", work=lambda: continuation_write("plan", None))
    assert continuation_read("plan") is None
