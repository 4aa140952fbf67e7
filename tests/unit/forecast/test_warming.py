"""A worker compiles what forecasts run on before the first job asks for one."""

from scheduler.core.forecast import hazard
from scheduler.core.forecast.jit_warmup import warm_forecasts
from scheduler.core.forecast.queue_kernel import run_queue
from scheduler.core.model.policy import Policy, PreemptionMode
from scheduler.jit_warmup import warm_up
from tests.unit.forecast.jobs import a_job
from tests.unit.forecast.test_of_pass import a_world, told, waiting

KERNELS = (run_queue, hazard.group_sums, hazard.group_curve, hazard.gittins_all)


def test_after_it_a_pass_with_forecasts_compiles_nothing_more():
    warm_up()
    compiled = [kernel.signatures[:] for kernel in KERNELS]
    assert all(compiled)
    world = a_world(waiting("1", 4), waiting("2", 2, limit_is_chosen=False))
    assert set(told(world, Policy(preemption=PreemptionMode.OFF))) == {"1", "2"}
    assert [kernel.signatures for kernel in KERNELS] == compiled


def test_it_runs_the_real_thing():
    found = warm_forecasts(a_job("1"))
    assert 0 < found.expected <= 60
