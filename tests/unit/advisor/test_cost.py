"""GPU-hours, energy, scaling, and what ZeRO exchanges."""

from dataclasses import replace

import pytest

from scheduler.advisor.collectives import sized_bus_bandwidth
from scheduler.advisor.cost import run_cost, run_seconds, scaling_efficiency
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.gpus import GPUS
from scheduler.advisor.models import SHAPES
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.step_time import MEGATRON_2021, step_parts
from scheduler.advisor.training_memory import state_bytes

A100, H100 = GPUS["A100-80GB"], GPUS["H100-80GB"]


def test_gpu_hours_and_energy_are_those_of_all_gpus():
    cost = run_cost(A100, 8, 1_000_000 * 0.11)
    assert cost.gpu_hours == pytest.approx(8 * 30.56, rel=0.001)
    assert cost.gpu_kwh == pytest.approx(3.2 * 30.56, rel=0.001)
    assert cost.system_kwh == pytest.approx(6.5 * 30.56, rel=0.001)


def test_a_run_has_whole_steps():
    shape = SHAPES["GPT-175B"]
    assert run_seconds(shape, 300e9, 1536, 32.0) == 95_368 * 32


def test_a_gpus_throughput_falls_with_their_number():
    points = scaling_efficiency(SHAPES["llama3-70b"], H100, [8, 64, 128, 256, 512], 1024)
    assert points[0].efficiency == 1
    assert points[0].gpus == 64, "8 are too few"
    efficiencies = [point.efficiency for point in points]
    assert efficiencies == sorted(efficiencies, reverse=True)
    assert 0.5 < efficiencies[-1] <= 1


@pytest.mark.parametrize("sizes", [[], [1] * 9])
def test_the_numbers_of_gpus_are_few(sizes):
    with pytest.raises(AdvisorError, match="between 1 and 8"):
        scaling_efficiency(SHAPES["gpt2"], A100, sizes, 64)


def test_zero_exchanges_twice_the_parameters_and_its_third_stage_three_times():
    # ZeRO (arXiv 1910.02054), section 7, with gradients of 16 bits that nothing hides.
    software = replace(MEGATRON_2021, gradient_bytes=2)
    seconds = [
        step_parts(
            SHAPES["llama3-8b"], Parallelism(8, 1, 1, 8, zero_stage=stage), A100, software
        ).gradients
        for stage in range(4)
    ]
    assert seconds[1] == seconds[0]
    assert seconds[2] == pytest.approx(seconds[0])
    assert seconds[3] == pytest.approx(1.5 * seconds[0])


@pytest.mark.parametrize(
    ("mebibytes", "gigabytes"), [(1, 39.9), (8, 155.5), (64, 346.5), (512, 450.3)]
)
def test_small_payloads_have_less_of_the_bandwidth(mebibytes, gigabytes):
    found = sized_bus_bandwidth(480e9, mebibytes * 2**20)
    assert found / 1e9 == pytest.approx(gigabytes, rel=0.03)


def test_expert_parallelism_divides_experts_and_nothing_else():
    shape = SHAPES["mixtral-8x7b"]
    one = Parallelism(8, 1, 1, 8)
    plain = shape.parameters - shape.routed_parameters
    found = state_bytes(shape, replace(one, expert_parallel=8))
    # Norms are left out.
    assert found == pytest.approx(18 * (plain + shape.routed_parameters / 8), rel=0.001)
    assert state_bytes(shape, one) == pytest.approx(18 * shape.parameters, rel=0.001)
