"""GPUs as the formulas of time see them. Peaks are dense, without NVIDIA's sparsity.

Sources: NVIDIA's data sheets of each board, and for RTX boards the white papers of their
architectures (Turing, GA102, Ada). Links are what one direction carries, half of what data sheets
print. `bus_bandwidth` is what nccl-tests measures in an all-reduce of eight GPUs over NVSwitch,
with NVLS where the switch has it (A100 235, H200 473, B200 838 GB/s); where nobody published a
measurement, 78 % of the link, which is A100's share, or 88 % of PCIe, as measured between H200 and
host.
`matrix_efficiency`: an H100 reached 793 TFLOP/s with matrices of 8,192 (docs/advisor.md); that of
the A100 is fitted with the constants of `step_time`, and other boards are taken for A100.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler.advisor.errors import AdvisorError, checked, one_of

RING_SHARE, PCIE_SHARE = 235 / 300, 0.88
PCIE3, PCIE4, PCIE5 = 15.75e9, 31.5e9, 63e9  # bytes a second of 16 lanes in one direction
GIB = 2**30
MOST_MEMORY = 2**44  # bytes, of a GPU: 16 TiB


@dataclass(frozen=True, slots=True)
class GpuFigures:
    memory_bytes: int
    peak_flops: float  # a second, in bfloat16; in float16 where the board has no bfloat16
    memory_bandwidth: float  # bytes a second
    bus_bandwidth: float  # bytes a second, all-reduce within a node
    network_bandwidth: float = 25e9  # bytes a second of a GPU's own NIC
    matrix_efficiency: float = 0.75  # of the peak that large matrix products reach
    power_watts: float = 0.0  # at most, of the board
    link_bandwidth: float = 0.0  # bytes a second of NVLink in one direction; 0 without it
    pcie_bandwidth: float = PCIE4
    tf32: float = 0.0
    fp32: float = 0.0  # without tensor cores
    int8: float = 0.0  # operations a second
    fp8: float = 0.0  # 0 on boards without it

    def __post_init__(self) -> None:
        checked("memory_bytes", self.memory_bytes, 1, MOST_MEMORY)
        for name in ("peak_flops", "memory_bandwidth", "bus_bandwidth", "network_bandwidth"):
            checked(name, getattr(self, name), 1, 1e21, whole=False)
        checked("matrix_efficiency", self.matrix_efficiency, 0.01, 1, whole=False)

    @property
    def peaks(self) -> Mapping[str, float]:
        """Operations a second by type, of the types that the board has."""
        every = {"fp32": self.fp32, "tf32": self.tf32, "bf16": self.peak_flops}
        every |= {"fp8": self.fp8, "int8": self.int8}
        return {name: value for name, value in every.items() if value}

    def slice(
        self, memory_bytes: int, compute_share: float = 1.0, bandwidth_share: float = 0.0
    ) -> "GpuFigures":
        """A part of the board: a MIG slice has its share of the multiprocessors, and of the
        bandwidth as much as of the memory (NVIDIA's MIG user guide); slices have no NVLink and no
        PCIe between them (same guide), so collectives go through the host."""
        checked("compute_share", compute_share, 1e-3, 1, whole=False)
        share = bandwidth_share or min(1.0, memory_bytes / self.memory_bytes)
        checked("bandwidth_share", share, 1e-3, 1, whole=False)
        is_part = compute_share < 1 or share < 1
        return replace(
            self,
            memory_bytes=memory_bytes,
            peak_flops=self.peak_flops * compute_share,
            memory_bandwidth=self.memory_bandwidth * share,
            bus_bandwidth=PCIE_SHARE * self.pcie_bandwidth / 2 if is_part else self.bus_bandwidth,
            link_bandwidth=0.0 if is_part else self.link_bandwidth,
            power_watts=self.power_watts * compute_share,
            tf32=self.tf32 * compute_share,
            fp32=self.fp32 * compute_share,
            int8=self.int8 * compute_share,
            fp8=self.fp8 * compute_share,
        )


def _figures(
    memory_gib: float,
    bandwidth: float,  # GB/s
    watts: float,
    bf16: float,  # TFLOP/s, as the next ones
    fp32: float,
    *,
    tf32: float = 0.0,
    int8: float = 0.0,
    fp8: float = 0.0,
    link: float = 0.0,  # GB/s in one direction
    pcie: float = PCIE4,
    bus: float = 0.0,  # GB/s, where measured
    network: float = 25.0,  # GB/s
    efficiency: float = 0.75,
) -> GpuFigures:
    measured = bus * 1e9 or (RING_SHARE * link * 1e9 if link else PCIE_SHARE * pcie)
    return GpuFigures(
        memory_bytes=int(memory_gib * GIB),
        peak_flops=bf16 * 1e12,
        memory_bandwidth=bandwidth * 1e9,
        bus_bandwidth=measured,
        network_bandwidth=network * 1e9,
        matrix_efficiency=efficiency,
        power_watts=watts,
        link_bandwidth=link * 1e9,
        pcie_bandwidth=pcie,
        tf32=tf32 * 1e12,
        fp32=fp32 * 1e12,
        int8=int8 * 1e12,
        fp8=fp8 * 1e12,
    )


_A100 = {"tf32": 156, "int8": 624, "link": 300, "bus": 235}
_H100 = {"tf32": 494, "int8": 1979, "fp8": 1979, "pcie": PCIE5, "network": 50, "efficiency": 0.8}
_BLACKWELL = {"link": 900, "pcie": PCIE5, "network": 50}
GPUS: dict[str, GpuFigures] = {
    "V100-16GB": _figures(16, 900, 300, 125, 15.7, link=150, pcie=PCIE3, network=12.5),
    "V100-32GB": _figures(32, 900, 300, 125, 15.7, link=150, pcie=PCIE3, network=12.5),
    "T4-16GB": _figures(15, 320, 70, 65, 8.1, int8=130, pcie=PCIE3, network=12.5),
    "A10-24GB": _figures(24, 600, 150, 125, 31.2, tf32=62.5, int8=250),
    "A30-24GB": _figures(24, 933, 165, 165, 10.3, tf32=82, int8=330, link=100),
    "A40-48GB": _figures(48, 696, 300, 149.7, 37.4, tf32=74.8, int8=299, link=56.25),
    "A100-40GB": _figures(40, 1555, 400, 312, 19.5, **_A100),
    "A100-80GB": _figures(80, 2039, 400, 312, 19.5, **_A100),
    "A800-80GB": _figures(80, 2039, 400, 312, 19.5, tf32=156, int8=624, link=200),
    "L4-24GB": _figures(24, 300, 72, 121, 30.3, tf32=60, int8=242, fp8=242),
    "L40-48GB": _figures(48, 864, 300, 181, 90.5, tf32=90.5, int8=362, fp8=362),
    "L40S-48GB": _figures(48, 864, 350, 362, 91.6, tf32=183, int8=733, fp8=733),
    "H100-80GB": _figures(80, 3350, 700, 989, 67, link=450, bus=473, **_H100),
    "H800-80GB": _figures(80, 3350, 700, 989, 67, link=200, **_H100),
    "H100-94GB": _figures(
        94, 3900, 400, 835, 60, tf32=417, int8=1670, fp8=1670, link=300, pcie=PCIE5, network=50
    ),
    "H20-96GB": _figures(
        96, 4000, 400, 148, 44, tf32=74, int8=296, fp8=296, link=450, pcie=PCIE5, network=50
    ),
    "H100-96GB": _figures(96, 4000, 700, 989, 67, link=450, **_H100),  # of a GH200
    "H200-141GB": _figures(141, 4800, 700, 989, 67, link=450, bus=473, **_H100),
    "GH200-144GB": _figures(144, 4900, 700, 989, 67, link=450, **_H100),
    "B200-180GB": _figures(
        180, 7700, 1000, 2250, 75, tf32=1100, int8=4500, fp8=4500, bus=838, **_BLACKWELL
    ),
    "GB200-186GB": _figures(
        186, 8000, 1200, 2500, 80, tf32=1250, int8=5000, fp8=5000, **_BLACKWELL
    ),
    "RTX-PRO-6000-96GB": _figures(
        96, 1597, 600, 504, 126, tf32=252, int8=1008, fp8=1008, pcie=PCIE5
    ),
    "RTX-2080Ti-11GB": _figures(11, 616, 250, 53.8, 13.4, int8=215, link=50, pcie=PCIE3),
    "RTX-3090-24GB": _figures(24, 936, 350, 71, 35.6, tf32=35.6, int8=284, link=56.25),
    "RTX-4090-24GB": _figures(24, 1008, 450, 165, 82.6, tf32=82.6, int8=661, fp8=330),
}
SYNONYMS = {
    "a100_80g": "A100-80GB",
    "a100_40g": "A100-40GB",
    "h100_80g": "H100-80GB",
    "NVIDIA A800-SXM4-80GB": "A800-80GB",
    "NVIDIA H800": "H800-80GB",
    "NVIDIA H20": "H20-96GB",
}


def gpu_by_name(name: str) -> GpuFigures:
    """By a key of GPUS, which are those of the boards in agents/contract/boards.json."""
    found = GPUS.get(SYNONYMS.get(name, name))
    if found is None:
        raise one_of("gpu", name, GPUS)
    return found


def power_of(gpu: GpuFigures) -> float:
    """Watts; an error where no source says them."""
    if gpu.power_watts <= 0:
        raise AdvisorError("the power of this GPU is not known: give power_watts", "power_watts")
    return gpu.power_watts
