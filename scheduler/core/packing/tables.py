"""Tables behind a score, made from the mix of demand for each GPU model."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.core.packing.fill_tables import CHOICES, Table, fill_table
from scheduler.core.packing.fragmentation import COVER, TypicalKinds, typical_kinds
from scheduler.core.packing.holes import GRID, HoleValues, hole_values
from scheduler.core.packing.kinds import KindMix, RequestKind
from scheduler.core.packing.scarcity import model_shares

CPU_STEP = 250  # millicores
MEMORY_STEP = 1_024  # MiB


@dataclass(frozen=True, slots=True)
class ScoreTables:
    """Tables made from a mix of demand."""

    cpu: Table
    """[model, idle GPUs, steps] GPUs that can be filled."""
    memory: Table
    """[model, idle GPUs, steps] GPUs that can be filled."""
    typical: TypicalKinds
    """The kinds of the fragmentation F, and their shares."""
    shares: npt.NDArray[np.float64]
    """Per model, the part of the demand that is bound to it."""


@dataclass(frozen=True, slots=True)
class ClusterExtent:
    """The largest node, and all GPUs by model."""

    cpu_milli: int
    memory_mib: int
    max_gpus_per_node: int
    gpus_by_model: tuple[int, ...]


def score_tables(
    mix: KindMix, extent: ClusterExtent, choices: int = CHOICES, cover: float = COVER
) -> ScoreTables:
    cpu, memory = [], []
    laws: dict[frozenset[RequestKind], tuple[Table, Table]] = {}
    for model in range(len(extent.gpus_by_model)):
        allowed = {k: count for k, count in mix.items() if k.gpus and k.allows(model)}
        key = frozenset(allowed)
        if key not in laws:
            laws[key] = _fills(allowed, extent, choices)
        cpu.append(laws[key][0])
        memory.append(laws[key][1])
    return ScoreTables(
        cpu=np.stack(cpu),
        memory=np.stack(memory),
        typical=typical_kinds(mix, cover),
        shares=model_shares(mix, extent.gpus_by_model),
    )


def hole_values_of_mix(mix: KindMix) -> HoleValues:
    """The value of each hole, in hundredths of a GPU, from the requested shares."""
    demand: dict[int, float] = {}
    for kind, count in mix.items():
        if kind.is_share:
            size = -int(-round(kind.amount * GRID, 6) // 1)
            demand[size] = demand.get(size, 0.0) + count
    return hole_values(demand)


def _fills(mix: KindMix, extent: ClusterExtent, choices: int) -> tuple[Table, Table]:
    weighted = [(kind, count * kind.amount) for kind, count in mix.items()]
    return (
        fill_table(
            ((kind.cpu_milli / kind.amount, weight) for kind, weight in weighted),
            CPU_STEP, extent.cpu_milli // CPU_STEP, extent.max_gpus_per_node, choices,
        ),
        fill_table(
            ((kind.memory_mib / kind.amount, weight) for kind, weight in weighted),
            MEMORY_STEP, extent.memory_mib // MEMORY_STEP, extent.max_gpus_per_node, choices,
        ),
    )  # fmt: skip
