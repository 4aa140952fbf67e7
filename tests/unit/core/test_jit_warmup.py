"""What a worker does before its first pass."""

from numba.core.dispatcher import Dispatcher

from scheduler.core.forecast import hazard, queue_kernel
from scheduler.core.packing import kernels, winners
from scheduler.jit_warmup import warm_up

# What Python calls of what is compiled; these call the rest. Only clusters of thousands of nodes
# hold tournaments.
CALLED = (
    *(kernels.score_columns, kernels.chosen_gpus, winners.best_by_scan),
    *(hazard.group_sums, hazard.group_curve, hazard.gittins, hazard.gittins_all),
    queue_kernel.run_queue,
)


def test_a_worker_finds_places_a_reason_and_a_time_before_anybody_asks():
    found, told = warm_up()
    assert {place.job for place in found.placements} == {"1", "2"}
    assert [hold.job for hold in found.deferrals] == ["3"]
    assert set(told) == {"3"}


def test_what_is_compiled_is_there_before_the_first_pass():
    warm_up()
    assert all(isinstance(function, Dispatcher) for function in CALLED)
    assert [one.__name__ for one in CALLED if not one.nopython_signatures] == []
