"""Many rings are one task, and no ring is lost: what was committed before it is read after it."""

import os
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from portal.leases.claims import RowClaim
from portal.leases.models import TaskLease
from portal.live import bell, pending
from portal.live.bell import ring_drive, ring_plan
from scheduler import sweeper, tasks
from tests.support.examples import examples
from tests.support.rows import a_node

pytestmark = pytest.mark.django_db(transaction=True)


class Workers:
    """Workers that take plan tasks from a queue; `read` is what the last pass saw."""

    def __init__(self, monkeypatch):
        self.queue, self.passes, self.committed, self.read = [], 0, 0, 0
        self.during = lambda: None
        monkeypatch.setattr(bell, "_send", lambda *task: self.queue.append(task) or True)
        monkeypatch.setattr(tasks, "plan_once", self.one_pass)

    def commit(self):
        """A transaction that rings after its commit."""
        self.committed += 1
        ring_plan()

    def one_pass(self):
        self.passes += 1
        self.read = self.committed
        self.during()

    def work(self):
        """One worker takes the next task."""
        if self.queue:
            self.queue.pop(0)
            tasks.plan()

    def work_off(self):
        while self.queue:
            self.work()


@pytest.fixture
def workers(monkeypatch):
    return Workers(monkeypatch)


@pytest.mark.parametrize("count", [1, 2])
def test_200_rings_while_a_pass_runs_are_one_more_pass(workers, count):
    def ring_often():
        workers.during = lambda: None
        for _ in range(200):
            workers.commit()
            if count == 2:
                workers.work()
        assert len(workers.queue) == (1 if count == 1 else 0), "one task for all of them"

    workers.during = ring_often
    workers.commit()
    workers.work_off()
    assert (workers.passes, workers.read) == (2, 201)


@pytest.mark.parametrize("is_redelivered", [True, False])
def test_a_task_whose_process_was_killed_makes_the_pass_that_it_had_begun(workers, is_redelivered):
    """Its ring was taken, and no other one comes."""
    tasks.plan.push_request(delivery_info={"redelivered": is_redelivered})
    try:
        tasks.plan.run()
    finally:
        tasks.plan.pop_request()
    assert workers.passes == is_redelivered
    workers.commit()
    assert len(workers.queue) == 1, "the next ring sends a task"


def test_a_pass_that_is_rung_during_one_does_not_wait_for_a_task_of_its_own(workers):
    def ring_once():
        workers.during = lambda: None
        workers.commit()

    workers.during = ring_once
    workers.commit()
    workers.work()
    assert (workers.passes, workers.read) == (2, 2)
    assert len(workers.queue) == 1, "that worker might have died"
    workers.work_off()
    assert workers.passes == 2, "which has nothing left to do"


def test_other_kinds_of_work_have_their_turn_while_every_pass_is_rung_again(workers, monkeypatch):
    monkeypatch.setattr(tasks, "NEXT_ROUND_WITHIN_SECONDS", 0)
    workers.during = workers.commit
    workers.commit()
    workers.work()
    assert (workers.passes, len(workers.queue)) == (1, 1)


def test_the_sweep_sends_a_task_also_where_one_is_on_its_way_and_it_does_nothing(workers):
    workers.commit()
    for _ in range(3):
        sweeper.sweep()
    assert len(workers.queue) == 4
    workers.work_off()
    assert workers.passes == 1


def test_a_task_that_was_lost_is_sent_again_by_the_sweep(workers):
    workers.commit()
    workers.queue.clear()
    workers.commit()
    assert not workers.queue, "one seems to be on its way"
    sweeper.sweep()
    workers.work_off()
    assert (workers.passes, workers.read) == (1, 2)


def test_a_ring_that_the_broker_did_not_take_does_not_hold_up_the_next(workers, monkeypatch):
    with monkeypatch.context() as away:
        away.setattr(bell, "_send", lambda *task: False)
        workers.commit()
    workers.commit()
    workers.work_off()
    assert (workers.passes, workers.read) == (1, 2)


STEPS = st.lists(st.sampled_from(["commit", "work"]), max_size=3)


@given(data=st.data())
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_ring_is_lost_wherever_it_falls(monkeypatch, data):
    """Between any two steps of a worker, others commit and ring, and other workers take tasks. Once
    the queue is empty, the last pass has read the last commit: without any sweep."""
    TaskLease.objects.all().delete()
    pending.forget_files()
    depth = [0]
    with monkeypatch.context() as patch:
        workers = Workers(patch)

        def others(*_):
            if depth[0] < 2:
                depth[0] += 1
                for step in data.draw(STEPS):
                    getattr(workers, step)()
                depth[0] -= 1

        def stepped(owner, name):
            real = getattr(owner, name)

            def step(*arguments, **named):
                others()
                result = real(*arguments, **named)
                others()
                return result

            patch.setattr(owner, name, step)

        for place in (
            (RowClaim, "take"),
            (RowClaim, "give_back"),
            (pending, "take"),
            (pending, "mark"),
        ):
            stepped(*place)
        patch.setattr(tasks, "plan_once", lambda: (others(), workers.one_pass(), others()))
        workers.commit()
        others()
        depth[0] = 2
        workers.work_off()
        assert workers.read == workers.committed
        assert not pending.take("plan")


def test_each_node_has_a_ring_of_its_own(workers):
    one, two = a_node(), a_node()
    for node in (one, two):
        # Its first report has rung.
        tasks.drive(str(node.row.pk))
    workers.queue.clear()
    for _ in range(5):
        ring_drive([one.row.pk, two.row.pk])
    assert [task[1] for task in workers.queue] == [str(one.row.pk), str(two.row.pk)]
    tasks.drive(str(one.row.pk))
    ring_drive([one.row.pk, two.row.pk])
    assert [task[1] for task in workers.queue[2:]] == [str(one.row.pk)]


def test_a_ring_counts_as_lost_after_a_minute(settings, tmp_path):
    settings.PLATFORM = replace(settings.PLATFORM, var=tmp_path)
    assert pending.mark("plan")
    assert not pending.mark("plan")
    old = time.time() - pending.SECONDS - 1
    os.utime(tmp_path / "pending" / "plan", (old, old))
    assert pending.mark("plan")
    assert not pending.mark("plan")
    assert (pending.take("plan"), pending.take("plan")) == (True, False)


def test_a_folder_that_cannot_be_written_costs_no_ring(settings, tmp_path):
    (tmp_path / "pending").write_text("a file where the folder should be")
    settings.PLATFORM = replace(settings.PLATFORM, var=tmp_path)
    assert [pending.mark("plan"), pending.mark("plan"), pending.take("plan")] == [True] * 3


@pytest.mark.services
def test_rings_are_kept_in_redis_where_there_is_one(settings, redis_server):
    settings.PLATFORM = replace(settings.PLATFORM, redis_url=redis_server.url(10))
    assert [pending.mark("plan"), pending.mark("plan"), pending.mark("drive:1")] == [
        True,
        False,
        True,
    ]
    pending.renew("plan")
    assert (pending.take("plan"), pending.take("plan")) == (True, False)
    redis_server.kill()
    assert [pending.mark("plan"), pending.mark("plan"), pending.take("plan")] == [True] * 3
    redis_server.start()
    assert (pending.take("drive:1"), pending.mark("plan")) == (False, True)
