"""GPUs as the time of a step sees them. Peaks are dense bfloat16.

Sources: NVIDIA's data sheets of A100, H100 and H200; `bus_bandwidth` as nccl-tests measures an
all-reduce of eight GPUs over NVSwitch, with NVLS where the switch has it (A100 235, H200 473 GB/s).
`matrix_efficiency`: an H100 reached 793 TFLOP/s with matrices of 8,192 (docs/advisor.md); that of
the A100 is fitted with the constants of `step_time`.
"""

from dataclasses import dataclass

from scheduler.advisor.errors import UnknownInput


@dataclass(frozen=True, slots=True)
class GpuFigures:
    memory_bytes: int
    peak_flops: float
    memory_bandwidth: float  # bytes a second
    bus_bandwidth: float  # bytes a second, all-reduce within a node
    network_bandwidth: float  # bytes a second of a GPU's own NIC
    matrix_efficiency: float  # of the peak that large matrix products reach


GPUS = {
    "A100-80GB": GpuFigures(80 * 2**30, 312e12, 2.039e12, 235e9, 25e9, 0.75),
    "A100-40GB": GpuFigures(40 * 2**30, 312e12, 1.555e12, 235e9, 25e9, 0.75),
    "H100-80GB": GpuFigures(80 * 2**30, 989e12, 3.35e12, 473e9, 50e9, 0.8),
    "H200-141GB": GpuFigures(141 * 2**30, 989e12, 4.8e12, 473e9, 50e9, 0.8),
}
SYNONYMS = {"a100_80g": "A100-80GB", "a100_40g": "A100-40GB", "h100_80g": "H100-80GB"}


def gpu_by_name(name: str) -> GpuFigures:
    found = GPUS.get(SYNONYMS.get(name, name))
    if found is None:
        raise UnknownInput(f"the GPU {name!r} is not known: use one of {', '.join(GPUS)}")
    return found
