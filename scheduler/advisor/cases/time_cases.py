"""Cases of time: steps, days, collectives, bubbles, utilisation, and sizes of groups."""

from scheduler.advisor.cases.inputs import Inputs
from scheduler.advisor.cases.shapes import (
    gpu_of,
    has_shape,
    parallelism_of,
    parameters_of,
    recompute_of,
    shape_of,
    software_of,
)
from scheduler.advisor.collectives import (
    between_nodes_seconds,
    bus_factor,
    collective_seconds,
    sized_bus_bandwidth,
)
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.parallelism import Parallelism
from scheduler.advisor.pipeline import bubble_over_ideal, bubble_over_total
from scheduler.advisor.quantities import bytes_as, seconds_as
from scheduler.advisor.step_time import step_parts
from scheduler.advisor.transformer import Recompute, Shape


def time(inputs: Inputs, unit: str) -> float:
    """A step, or the days that a number of tokens takes at a rate that is given."""
    if "tflops" in inputs:
        return seconds_as(_seconds_at_rate(inputs), unit)
    shape, parallelism = shape_of(inputs), parallelism_of(inputs)
    return seconds_as(_step_seconds(inputs, shape, parallelism), unit)


def _step_seconds(inputs: Inputs, shape: Shape, parallelism: Parallelism) -> float:
    return step_parts(shape, parallelism, gpu_of(inputs), software_of(inputs)).seconds


def _seconds_at_rate(inputs: Inputs) -> float:
    """The rate counts recomputed work as published tables do: 8 operations for each token and
    parameter (SC21, equation 4)."""
    rate = inputs.count("gpus") * inputs.number("tflops") * 1e12
    if rate == 0:
        raise AdvisorError("tflops must be more than 0")
    if "tokens" in inputs:
        return 8 * inputs.number("tokens") * parameters_of(inputs) / rate
    flops = shape_of(inputs).hardware_flops(inputs.count("global_batch"), Recompute.FULL)
    return flops / rate


def throughput(inputs: Inputs, unit: str) -> float:
    """TFLOP/s of each GPU; with full recompute the work done twice counts, as in SC21's table."""
    shape, parallelism = shape_of(inputs), parallelism_of(inputs)
    seconds = _step_seconds(inputs, shape, parallelism)
    flops = shape.hardware_flops(parallelism.global_batch, recompute_of(inputs))
    return flops / parallelism.gpus / seconds / 1e12


def utilisation(inputs: Inputs, unit: str) -> float:
    """Percent of the peak: of the model's work (MFU) or of all work (HFU)."""
    peak = inputs.number("peak_tflops")
    if peak == 0:
        raise AdvisorError("peak_tflops must be more than 0")
    if "tflops" in inputs:
        return 100 * inputs.number("tflops") / peak
    shape, batch = shape_of(inputs), inputs.count("global_batch")
    # The published HFU are of selective recompute.
    hardware = "HFU" in unit
    flops = (
        shape.hardware_flops(batch, Recompute.SELECTIVE) if hardware else shape.model_flops(batch)
    )
    available = inputs.number("iteration_s") * inputs.count("gpus") * peak * 1e12
    if available == 0:
        raise AdvisorError("iteration_s must be more than 0")
    return 100 * flops / available


def parameters(inputs: Inputs, unit: str) -> float:
    """In the unit's thousands: billion or million."""
    count = shape_of(inputs).parameters if has_shape(inputs) else parameters_of(inputs)
    scale = {"billion": 1e9, "million": 1e6, "parameters": 1.0}
    if unit not in scale:
        raise AdvisorError(f"{unit!r} is not a unit of parameters: use one of {', '.join(scale)}")
    return count / scale[unit]


def data_parallel_size(inputs: Inputs, unit: str) -> int:
    """What Megatron calls a layout: GPUs by tensor, pipeline and context parallelism."""
    return parallelism_of(inputs).data_parallel


def pipeline(inputs: Inputs, unit: str) -> float:
    definitions = {"over_ideal": bubble_over_ideal, "over_total": bubble_over_total}
    name = inputs.word("definition")
    if name not in definitions:
        raise AdvisorError(f"definition must be one of {', '.join(definitions)}")
    return definitions[name](inputs.count("p"), inputs.count("m"), inputs.count("v", 1))


def communication(inputs: Inputs, unit: str) -> float:
    """Bytes, seconds or bandwidths of collectives, as the unit asks."""
    kind, ranks = inputs.word("collective", "all_reduce"), inputs.count("n", 1)
    if unit == "busbw/algbw":
        return bus_factor(kind, ranks)
    if unit.startswith("GB/s"):
        return inputs.number("busbw") / bus_factor(kind, ranks)
    size = _payload_bytes(inputs)
    if unit.split()[0] in ("us", "ms", "s"):
        return seconds_as(_transfer_seconds(inputs, kind, size, ranks), unit)
    return bytes_as(size * bus_factor(kind, ranks) if "n" in inputs else size, unit)


def _payload_bytes(inputs: Inputs) -> float:
    if "params" in inputs:
        return inputs.number("params") * inputs.number("bytes", 2)
    return inputs.number("bytes_gb") * 1e9 if "bytes_gb" in inputs else inputs.number("bytes")


def _transfer_seconds(inputs: Inputs, kind: str, size: float, ranks: int) -> float:
    if "nic_gbps" in inputs:  # gigabytes a second, as the sources write it
        nic = inputs.bandwidth("nic_gbps")
        if nic == 0:
            raise AdvisorError("nic_gbps must be more than 0")
        if "nodes" in inputs:
            nodes, each = inputs.count("nodes"), inputs.count("gpus_per_node")
            return between_nodes_seconds(size, nodes, each, nic)
        return size / nic
    names = ("busbw", "bandwidth", "bandwidth_gbps_used_by_seed")
    given = next((name for name in names if name in inputs), None)
    if given is None:
        raise AdvisorError("give busbw or bandwidth in GB/s, or nic_gbps")
    bandwidth = inputs.bandwidth(given)
    if inputs.flag("sized"):
        bandwidth = sized_bus_bandwidth(bandwidth, size)
    return collective_seconds(kind, size, ranks, bandwidth)
