"""The one event loop: what stopping costs, who is told of what, and that runs repeat exactly."""

import random

import pytest

from scheduler.core.model.policy import BackfillMode, OrderMode, Policy, PreemptionMode
from scheduler.core.model.snapshot import Priority
from scheduler.virtual.devices import emptied_nodes
from scheduler.virtual.simulation import (
    CARVE_SECONDS,
    RECHECK_SECONDS,
    Simulation,
    SimulationObserver,
)
from scheduler.virtual.values import PreemptionCosts, Scenario
from tests.support.snapshots import a_gpu, a_node
from tests.unit.what_if.scenarios import HOUR, SINCE, a_recorded, a_scenario, a_window

ONE = a_node(a_gpu())
LONG = {"gpus": 1, "preemptible": True, "priority": Priority.LOW}


def played(window, *, stops=None, watch=None, nodes=(ONE,), **policy):
    scenario = Scenario(emptied_nodes(nodes), policy=Policy(**{"protection_seconds": 0} | policy))
    simulation = Simulation(scenario, window, costs=stops or PreemptionCosts(), observer=watch)
    simulation.run()
    return simulation


class Seen(SimulationObserver):
    """Everything that was told, and the waiting jobs of each pass."""

    def __init__(self):
        self.told, self.waiting = [], []

    def on_pass(self, snapshot, found):
        self.waiting.append((snapshot.now - SINCE, {job.id: job for job in snapshot.jobs}))

    def on_start(self, job, now):
        self.told.append(("started", job.id, now - SINCE))

    def on_end(self, job, now, ran_seconds):
        self.told.append(("ended", job.id, now - SINCE, ran_seconds))

    def stopped_job(self, key, now):
        """The job as it waits again at that time."""
        (job,) = {jobs[key] for then, jobs in self.waiting if then == now and key in jobs}
        return job


def low_and_high():
    """A job of two hours, stopped after one for a job of one hour."""
    high = a_recorded(2, gpus=1, at=HOUR, priority=Priority.HIGH)
    return a_window(a_recorded(1, 2 * HOUR, **LONG), high)


def test_a_watch_is_told_of_first_starts_and_of_ends_with_all_useful_time():
    seen = Seen()
    played(low_and_high(), watch=seen)
    assert seen.told == [
        ("started", "1", 0),
        ("started", "2", HOUR),
        ("ended", "2", 2 * HOUR, HOUR),
        ("ended", "1", 3 * HOUR, 2 * HOUR),
    ]


def test_a_restart_costs_time_that_is_not_useful_at_every_start_but_the_first():
    simulation = played(low_and_high(), stops=PreemptionCosts(restart_seconds=30))
    assert simulation.outcomes["1"].ended_at == SINCE + 3 * HOUR + 30
    assert simulation.outcomes["1"].done_seconds == 2 * HOUR
    assert simulation.outcomes["2"].ended_at == SINCE + 2 * HOUR


def test_who_is_stopped_while_it_restarts_has_done_no_more_than_before():
    second = a_recorded(3, gpus=1, at=2 * HOUR + 10, priority=Priority.HIGH)
    window = low_and_high()
    simulation = played(a_window(*window.jobs, second), stops=PreemptionCosts(restart_seconds=30))
    assert simulation.outcomes["1"].stops == 2
    assert simulation.outcomes["1"].ended_at == SINCE + 3 * HOUR + 10 + 30 + HOUR


@pytest.mark.parametrize(("keeps_place", "queued_at"), [(True, SINCE), (False, SINCE + HOUR)])
def test_a_stopped_job_keeps_its_place_unless_the_rules_say_otherwise(keeps_place, queued_at):
    seen = Seen()
    played(low_and_high(), watch=seen, stops=PreemptionCosts(keeps_place=keeps_place))
    job = seen.stopped_job("1", HOUR)
    assert (job.queued_at, job.attained_seconds, job.preempted) == (queued_at, HOUR, 1)


@pytest.mark.parametrize("moves_count", [True, False])
def test_a_move_protects_longer_only_where_moves_count(moves_count):
    """Two jobs of one GPU stand on two nodes; one of them makes room for a job of two GPUs."""
    nodes = [a_node(a_gpu(), a_gpu(), name="a"), a_node(a_gpu(), a_gpu(), name="b")]
    times = {"1": 10, "2": 2 * HOUR, "3": 10, "4": 2 * HOUR}
    jobs = [
        a_recorded(key, ran, gpus=1, at=at, preemptible=True)
        for at, (key, ran) in enumerate(times.items())
    ]
    wide = a_recorded(5, 60, gpus=2, at=20, time_limit_seconds=60)
    seen = Seen()
    simulation = played(
        a_window(*jobs, wide),
        nodes=nodes,
        watch=seen,
        stops=PreemptionCosts(moves_extend_protection=moves_count),
        order=OrderMode.SMALLEST,
        preemption=PreemptionMode.ORDER,
        backfill=BackfillMode.SKIP,
        hysteresis=1.0,
        moves=4,
    )
    moved = [key for key in ("2", "4") if simulation.outcomes[key].stops]
    assert len(moved) == 1
    assert simulation.outcomes["5"].started_at == SINCE + 20
    assert seen.stopped_job(moved[0], 20).preempted == int(moves_count)


def test_an_end_of_protection_is_looked_at_on_the_grid():
    window = low_and_high()
    at_once = played(window, protection_seconds=HOUR + 100)
    on_grid = played(
        window, protection_seconds=HOUR + 100, stops=PreemptionCosts(recheck_seconds=360)
    )
    assert at_once.outcomes["2"].started_at == SINCE + HOUR + 100
    # 1,000,000 + 3,700 s is no multiple of 360 s.
    assert on_grid.outcomes["2"].started_at == -(-(SINCE + HOUR + 100) // 360) * 360


def test_where_the_order_stops_work_the_planner_is_asked_again_as_jobs_age():
    seen = Seen()
    window = a_window(a_recorded(1, 5 * HOUR, gpus=1), a_recorded(2, gpus=1, at=60))
    played(window, watch=seen, preemption=PreemptionMode.ORDER)
    looks = [SINCE + now for now, _ in seen.waiting if now not in (0, 60, 5 * HOUR)]
    assert len(looks) == 4
    assert all(now % RECHECK_SECONDS == 0 for now in looks)
    seen = Seen()
    played(window, watch=seen, preemption=PreemptionMode.ORDER, order=OrderMode.SMALLEST)
    assert [now for now, _ in seen.waiting] == [0, 60, 5 * HOUR]


def test_nothing_is_asked_while_nobody_waits():
    simulation = played(a_window(a_recorded(1, gpus=1), a_recorded(2, gpus=1, at=2 * HOUR)))
    assert simulation.passes == 2


@pytest.mark.parametrize("order", list(OrderMode))
def test_the_same_jobs_play_the_same_way_twice_and_all_of_them_end(order):
    draw = random.Random(7)
    jobs = []
    for key in range(40):
        ran = draw.randint(60, 4_000)
        jobs.append(
            a_recorded(
                key,
                ran,
                at=draw.randint(0, 9_000),
                gpus=draw.choice([1, 1, 2]),
                preemptible=True,
                time_limit_seconds=ran * draw.randint(1, 4),
            )
        )
    nodes = (a_node(a_gpu(), a_gpu()), a_node(a_gpu(), name="n2"))
    stops = PreemptionCosts(restart_seconds=30, keeps_place=False)
    how = {"order": order, "preemption": PreemptionMode.ORDER, "stops": stops, "nodes": nodes}
    once, again = (played(a_window(*jobs), **how) for _ in range(2))
    assert once.outcomes == again.outcomes
    assert once.passes == again.passes
    for outcome in once.outcomes.values():
        stood = outcome.ended_at - outcome.recorded.job.queued_at
        assert outcome.remaining_seconds == 0
        assert (
            outcome.done_seconds == outcome.recorded.ran_seconds <= stood - outcome.waited_seconds
        )


def test_first_come_first_served_on_one_gpu_is_one_after_another():
    window = a_window(*(a_recorded(n, 100 * (n + 1), gpus=1, at=n) for n in range(5)))
    simulation = played(window, order=OrderMode.FIFO, backfill=BackfillMode.NONE)
    ends = [simulation.outcomes[str(n)].ended_at - SINCE for n in range(5)]
    assert ends == [100, 300, 600, 1_000, 1_500]
    assert simulation.outcomes["4"].waited_seconds == 1_000 - 4


def test_what_is_held_is_counted_inside_the_window_only():
    scenario = a_scenario(ONE)
    window = a_window(a_recorded(1, HOUR, gpus=1, at=7 * 24 * HOUR - 60))
    simulation = Simulation(scenario, window)
    simulation.run()
    assert simulation.allocated_unit_seconds.total() == 60 * 56_000


def test_a_share_waits_for_the_slice_that_a_stopped_job_leaves_to_be_deleted():
    """Both jobs stop for the CPU of the third. The fourth may have the GPU of the first, whose
    slice stands there until it is deleted."""
    low = {"preemptible": True, "priority": Priority.LOW, "cpu_milli": 30_000}
    window = a_window(
        a_recorded(1, HOUR, mig="7g.141gb", **low),
        a_recorded(2, HOUR, gpus=1, at=1, models=("L40S",), **low),
        a_recorded(3, 600, gpus=1, at=60, models=("L40S",), cpu_milli=60_000),
        a_recorded(4, 600, mps=(30, 20_000), at=60, models=("H200",)),
    )
    simulation = played(
        window, nodes=[a_node(a_gpu(), a_gpu(board="L40S-48GB"))], order=OrderMode.FIFO
    )
    assert simulation.outcomes["1"].stops == simulation.outcomes["2"].stops == 1
    assert simulation.outcomes["3"].started_at == SINCE + 60
    assert simulation.outcomes["4"].started_at == SINCE + 60 + CARVE_SECONDS
