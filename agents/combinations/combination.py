"""A row of the table: when it applies, what becomes of the request, and in which words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agents.combinations.shape import GangShape
from agents.contract.message import Message


class CombinationCode(StrEnum):
    """Stable: REST, the planner's evidence and reports of agents carry them."""

    MIXED_DEVICES = "mixed_devices"
    NCCL_ON_MIG = "nccl_on_mig"
    NCCL_ON_MPS = "nccl_on_mps"
    GLOO_ON_PARTS = "gloo_on_parts"
    PROCESSES_OVER_GPUS = "processes_over_gpus"
    PROCESSES_OVER_THREADS = "processes_over_threads"
    PROCESSES_OVER_LAUNCHER = "processes_over_launcher"
    LAUNCHER_IN_COMMAND = "launcher_in_command"
    TENSOR_PARALLEL_ON_PARTS = "tensor_parallel_on_parts"
    TENSOR_PARALLEL_OVER_REPLICAS = "tensor_parallel_over_replicas"
    NVLINK_ON_MIG = "nvlink_on_mig"
    PROFILER_ON_MPS = "profiler_on_mps"
    NEIGHBOURS_ON_MPS = "neighbours_on_mps"


class CombinationVerdict(StrEnum):
    ALLOW = "allow"
    WARN = "warn"
    REFUSE = "refuse"


def no_changes(shape: GangShape) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Combination:
    """Devices, processes, a launcher or a backend that are requested together."""

    code: CombinationCode
    verdict: CombinationVerdict
    field: str
    """The field of the request that is named with it."""
    what: str
    """For docs/combinations.md."""
    when: Callable[[GangShape], bool]
    sentence: Callable[[GangShape], Message]
    """Why, and what to request instead. The same for every asker."""
    example: GangShape
    """One to which it applies."""
    source: str
    changes: Callable[[GangShape], Mapping[str, Any]] = no_changes
    """Changed fields that mend the request; empty if none do."""
