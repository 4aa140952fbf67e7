"""What a run costs: GPU-hours, energy and money, and how well more GPUs are used.

Sources: NVIDIA's data sheets for the power of GPUs (`gpus`) and of whole systems: 6.5 kW of a DGX
A100 with eight GPUs of 400 W, 10.2 kW of a DGX H100 with eight of 700 W. Scaling efficiency as in
SC21 (arXiv 2104.04473), section 5.1: throughput of a GPU beside that with fewer.
"""

import math
from dataclasses import dataclass

from scheduler.advisor.errors import AdvisorError, checked
from scheduler.advisor.gpus import GpuFigures, power_of
from scheduler.advisor.search import MOST_GPUS, search
from scheduler.advisor.transformer import Shape

# A whole system's power over that of its GPUs: fans, processors, network cards, losses. The larger
# of 6,500 / 3,200 and 10,200 / 5,600.
SYSTEM_FACTOR = 6_500 / 3_200
MOST_TOKENS, LONGEST_SECONDS, MOST_SIZES = 10**18, 1e15, 8


@dataclass(frozen=True, slots=True)
class RunCost:
    """Of a run as a whole. The energy is at most this: boards rarely reach their limit."""

    seconds: float
    gpu_hours: float
    gpu_kwh: float
    system_kwh: float  # with the servers around the GPUs; without cooling of the room


def run_cost(gpu: GpuFigures, gpus: int, seconds: float) -> RunCost:
    """Of `gpus` GPUs or slices for so long."""
    checked("gpus", gpus, 1, MOST_GPUS)
    checked("seconds", seconds, 0, LONGEST_SECONDS, whole=False)
    hours = gpus * seconds / 3_600
    kwh = hours * power_of(gpu) / 1_000
    return RunCost(seconds, hours, kwh, kwh * SYSTEM_FACTOR)


def run_seconds(shape: Shape, tokens: float, global_batch: int, step_seconds: float) -> float:
    """Of all steps that it takes to train on so many tokens."""
    checked("tokens", tokens, 1, MOST_TOKENS, whole=False)
    checked("global_batch", global_batch, 1, 10**6)
    checked("step_seconds", step_seconds, 0, LONGEST_SECONDS, whole=False)
    return math.ceil(tokens / (global_batch * shape.sequence)) * step_seconds


def million_tokens_cost(hour_cost: float, tokens_per_second: float) -> float:
    """Of a model server: what its GPUs cost for an hour, over the tokens that it writes in one."""
    checked("hour_cost", hour_cost, 0, 1e15, whole=False)
    checked("tokens_per_second", tokens_per_second, 1e-9, 1e15, whole=False)
    return hour_cost / (tokens_per_second * 3_600) * 1e6


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """The best step with so many GPUs."""

    gpus: int
    step_seconds: float
    efficiency: float  # of a GPU's throughput with the first number of GPUs that fits


def scaling_efficiency(
    shape: Shape, gpu: GpuFigures, sizes: list[int], global_batch: int
) -> list[ScalingPoint]:
    """At one global batch, with each number of GPUs that fits, the smallest first (strong scaling).
    At most eight numbers are looked at. Raises AdvisorError."""
    if not 1 <= len(sizes) <= MOST_SIZES:
        raise AdvisorError("give between 1 and %(most)s numbers of GPUs", "gpus", most=MOST_SIZES)
    points: list[ScalingPoint] = []
    for gpus in sorted(set(sizes)):
        found = search(shape, gpu, gpus, global_batch)
        if not found:
            continue
        seconds = found[0].parts.seconds
        first = points[0] if points else ScalingPoint(gpus, seconds, 1.0)
        share = first.gpus * first.step_seconds / (gpus * seconds)
        points.append(ScalingPoint(gpus, seconds, share))
    return points
