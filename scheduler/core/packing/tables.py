"""Tables of a score, made from the mix of demand: what holes are worth, what can still be filled.

Per model of GPU, from the work that may run there.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.core.packing.fill_tables import CHOICES, Table, fill_table
from scheduler.core.packing.fragmentation import COVER, Typical, typical
from scheduler.core.packing.holes import GRID, Values, hole_values
from scheduler.core.packing.kinds import Kind, Mix
from scheduler.core.packing.scarcity import model_shares

CPU_STEP = 250  # millicores
MEMORY_STEP = 1_024  # MiB


@dataclass(frozen=True, slots=True)
class Tables:
    """`cpu` and `memory`: [model, idle GPUs, steps], GPUs that can be filled. `typical`: the kinds
    of F and their shares. `shares`: per model, its part of the demand that is bound to models."""

    cpu: Table
    memory: Table
    typical: Typical
    shares: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Extent:
    """The largest node, and GPUs in all by model."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    models: tuple[int, ...]


def learn(mix: Mix, extent: Extent, choices: int = CHOICES, cover: float = COVER) -> Tables:
    cpu, memory = [], []
    laws: dict[frozenset[Kind], tuple[Table, Table]] = {}
    for model in range(len(extent.models)):
        there = {k: count for k, count in mix.items() if k.gpus and k.allows(model)}
        key = frozenset(there)
        if key not in laws:
            laws[key] = _fills(there, extent, choices)
        cpu.append(laws[key][0])
        memory.append(laws[key][1])
    return Tables(
        cpu=np.stack(cpu),
        memory=np.stack(memory),
        typical=typical(mix, cover),
        shares=model_shares(mix, extent.models),
    )


def learn_holes(mix: Mix) -> Values:
    """Worth of each hole in hundredths of a GPU, from the shares asked for."""
    demand: dict[int, float] = {}
    for kind, count in mix.items():
        if kind.is_share:
            size = -int(-round(kind.amount * GRID, 6) // 1)
            demand[size] = demand.get(size, 0.0) + count
    return hole_values(demand)


def _fills(mix: Mix, extent: Extent, choices: int) -> tuple[Table, Table]:
    weighed = [(kind, count * kind.amount) for kind, count in mix.items()]
    return (
        fill_table(
            ((kind.cpu_milli / kind.amount, weight) for kind, weight in weighed),
            CPU_STEP, extent.cpu_milli // CPU_STEP, extent.gpus, choices,
        ),
        fill_table(
            ((kind.memory_mib / kind.amount, weight) for kind, weight in weighed),
            MEMORY_STEP, extent.memory_mib // MEMORY_STEP, extent.gpus, choices,
        ),
    )  # fmt: skip
