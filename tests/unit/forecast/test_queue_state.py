"""A snapshot as the queue that starts are forecast from."""

from dataclasses import replace

from agents.contract.units import UNITS_PER_GPU
from scheduler.core.forecast.queue_state import queue_state
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.forecast.sampling import MIN_RATIOS
from scheduler.core.forecast.starts import MIN_ENDED_RUNS, start_estimates
from scheduler.core.model.policy import BackfillMode, OrderMode, Policy
from scheduler.core.model.snapshot import (
    ClusterSnapshot,
    DeviceRequest,
)
from tests.unit.forecast.jobs import a_job, a_run
from tests.unit.forecast.queues import BOARD, a_node, running

NOW = 1_000_000
HOUR = 3_600
FIFO = Policy(order=OrderMode.FIFO)


def ended(count):
    """Runs that took half of their limits, long ago."""
    return tuple(a_run(HOUR, limit=2 * HOUR, chosen=True, at=1_000 * i) for i in range(count))


def state_of(policy=FIFO, **fields):
    snapshot = ClusterSnapshot(now=NOW, **fields)
    return queue_state(snapshot, policy, RuntimeModel.from_snapshot(snapshot))


def test_what_running_jobs_hold_is_not_free():
    job = a_job("r", 3, at=NOW - HOUR, limit=2 * HOUR, chosen=True, attained=60)
    state = state_of(
        nodes=(a_node("a"), a_node("b")),
        running=(running(job, "b", 3, NOW - HOUR),),
        history=ended(MIN_RATIOS),
    )
    assert state.total == (8 * UNITS_PER_GPU, 8 * UNITS_PER_GPU)
    assert state.free == (8 * UNITS_PER_GPU, 5 * UNITS_PER_GPU)
    (held,) = state.running
    assert held.places == ((1, 3 * UNITS_PER_GPU),)
    assert (held.age, held.limit, held.curve) == (HOUR + 60, 2 * HOUR, -1)


def test_limits_say_how_long_jobs_run_once_enough_runs_have_shown_what_part_is_used():
    job = a_job("1", limit=HOUR, chosen=True)
    for count, by_limit in ((MIN_RATIOS - 1, False), (MIN_RATIOS, True)):
        state = state_of(nodes=(a_node("a"),), jobs=(job,), history=ended(count))
        assert (state.waiting[0].curve < 0) == by_limit
        assert len(state.ratios) == count


def test_slices_count_as_their_part_of_a_gpu():
    part = replace(a_job("1"), device=DeviceRequest(mig="1g.18gb"))
    state = state_of(nodes=(a_node("a"),), jobs=(part, a_job("2", 2, replicas=3)))
    small, gang = state.waiting
    assert small.units == BOARD.units(BOARD.profile("1g.18gb"))
    assert (gang.units, gang.replicas) == (2 * UNITS_PER_GPU, 3)


def test_pools_are_the_nodes_where_a_job_may_run():
    nodes = (a_node("a", labels=("rack=1",)), a_node("b"), a_node("c", taints=("lab",)))
    jobs = (replace(a_job("1"), needs=("rack=1",)), a_job("2"))
    state = state_of(nodes=nodes, jobs=jobs)
    first, second = (state.pools[job.pool] for job in state.waiting)
    assert first == (True, False, False)
    assert second == (True, True, False)


def test_nodes_that_are_away_are_not_there():
    away = replace(a_node("a"), available=False)
    job = a_job("r", 8, limit=HOUR, chosen=True)
    state = state_of(nodes=(away, a_node("b")), running=(running(job, "a", 8, NOW),))
    assert state.total == (8 * UNITS_PER_GPU,)
    assert state.running == ()


def test_jobs_that_wait_for_something_else_are_not_in_the_queue_and_later_ones_say_when():
    jobs = (
        replace(a_job("1"), after=("0",)),
        replace(a_job("2"), begin_at=NOW + 60),
        replace(a_job("3"), hold_reason="approval"),
        a_job("4"),
    )
    queue = state_of(nodes=(a_node("a"),), jobs=jobs).waiting
    assert [(job.id, job.begin_at) for job in queue] == [("2", NOW + 60), ("4", 0)]


def test_arrivals_are_the_last_submissions_whatever_became_of_them():
    past = tuple(a_run(50, gpus=16, at=100 * i, chosen=True) for i in range(300))
    state = state_of(nodes=(a_node("a"),), history=past, jobs=(a_job("1", at=NOW - 5),))
    assert len(state.arrivals) == 200
    assert [each.queued_at for each in state.arrivals[-2:]] == [29_900, NOW - 5]
    assert (state.arrivals[0].replicas, state.arrivals[0].units) == (2, 8 * UNITS_PER_GPU)


def test_the_order_is_the_policys():
    jobs = (
        a_job("long", at=1, limit=8 * HOUR, chosen=True),
        a_job("short", at=2, limit=HOUR, chosen=True),
    )
    holder = a_job("r", 8, limit=HOUR, chosen=True)
    fields = {
        "nodes": (a_node("a", 1),),
        "jobs": jobs,
        "running": (running(holder, "a", 1, NOW),),
        "history": ended(MIN_ENDED_RUNS),
    }
    first_come = start_estimates(state_of(FIFO, **fields), seed=1)
    assert first_come["long"].expected < first_come["short"].expected
    fair = start_estimates(state_of(Policy(), **fields), seed=1)
    assert fair["short"].expected < fair["long"].expected
    snapshot = ClusterSnapshot(now=NOW, **fields)
    greedy = queue_state(
        snapshot, Policy(), RuntimeModel.from_snapshot(snapshot), lambda project, user: 3.0
    )
    assert greedy.waiting[0].key == 3 * state_of(Policy(), **fields).waiting[0].key


def test_a_cluster_that_nobody_knows_anything_of_gives_no_estimate():
    holder = a_job("r", 8)
    state = state_of(
        nodes=(a_node("a"),), jobs=(a_job("1"),), running=(running(holder, "a", 8, NOW),)
    )
    assert start_estimates(state) == {"1": None}


def test_a_job_that_takes_half_the_cpu_takes_half_the_node_though_it_asks_for_one_gpu():
    nodes = (a_node("a", 4, cpu_milli=2_000),)
    held = running(a_job("9"), "a", 1, NOW)
    state = state_of(nodes=nodes, jobs=(a_job("1"),), running=(held,))
    assert state.waiting[0].units == 2 * UNITS_PER_GPU
    assert state.running[0].places == ((0, 2 * UNITS_PER_GPU),)
    assert state.free == (2 * UNITS_PER_GPU,)


def test_who_lacks_cpu_is_not_told_that_it_starts_now():
    nodes = (a_node("a", 4, cpu_milli=2_000),)
    runs = tuple(running(a_job(str(n), limit=HOUR, chosen=True), "a", 1, NOW) for n in (8, 9))
    waiting = a_job("1", limit=HOUR, chosen=True)
    snapshot = ClusterSnapshot(NOW, nodes, (waiting,), running=runs, history=ended(MIN_ENDED_RUNS))
    model = RuntimeModel.from_snapshot(snapshot)
    found = start_estimates(queue_state(snapshot, FIFO, model))["1"]
    assert found.expected > NOW + 60


def test_many_jobs_at_once_are_no_rate_of_arrivals():
    """Ten submissions within seconds say nothing of the next hours."""
    same = {"limit": HOUR, "chosen": True}
    held = running(a_job("90", at=NOW - 20, **same), "a", 8, NOW)
    burst = tuple(a_job(str(n), 1 + 7 * (n % 2), at=NOW - 10 + n, **same) for n in range(1, 10))
    past = tuple(replace(run, queued_at=NOW - 15) for run in ended(MIN_ENDED_RUNS))
    snapshot = ClusterSnapshot(NOW, (a_node("a"),), burst, running=(held,), history=past)
    state = queue_state(
        snapshot,
        Policy(order=OrderMode.SMALLEST, backfill=BackfillMode.SKIP),
        RuntimeModel.from_snapshot(snapshot),
    )
    last = max(one.pessimistic for one in start_estimates(state).values())
    assert last <= NOW + 10 * HOUR
