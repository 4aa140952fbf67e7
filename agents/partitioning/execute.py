"""Executes partition steps in order, with a callback before and after each of them."""

from collections.abc import Callable, Iterable

from agents.facts.partitions import PartitionProblem
from agents.nvml.errors import NvmlFailure
from agents.nvml.session import Nvml
from agents.partitioning.steps import (
    CompleteInstance,
    CreateInstance,
    DestroyInstance,
    PartitionStep,
    SetMigMode,
    gpu_of,
)


def driver_problem(step: PartitionStep, failure: NvmlFailure) -> PartitionProblem:
    """The problem in the driver's own words."""
    slice_id = step.slice.id if isinstance(step, CreateInstance) else ""
    return PartitionProblem(gpu_of(step), str(failure.code), failure.sentence, slice_id)


def execute_steps(
    nvml: Nvml,
    steps: Iterable[PartitionStep],
    before: Callable[[PartitionStep], None],
    after: Callable[[PartitionStep], None],
    explain: Callable[[PartitionStep, NvmlFailure], PartitionProblem] = driver_problem,
) -> list[PartitionProblem]:
    """Execute the steps in order; `before` and `after` write each one to the journal.

    A step that fails becomes the problem that `explain` returns, and the later steps of its GPU are
    left for another round."""
    problems: dict[str, PartitionProblem] = {}
    for step in steps:
        gpu = gpu_of(step)
        if gpu in problems:
            continue
        before(step)
        try:
            _do(nvml, step)
        except NvmlFailure as failure:
            problems[gpu] = explain(step, failure)
        else:
            after(step)
    return list(problems.values())


def _do(nvml: Nvml, step: PartitionStep) -> None:
    match step:
        case SetMigMode():
            nvml.set_mig_mode(step.gpu_uuid, on=step.mig)
        case CreateInstance():
            want = step.slice
            nvml.create_instance(want.gpu_uuid, step.profile_id, want.start, want.size)
        case CompleteInstance():
            nvml.complete_instance(step.gpu_uuid, step.instance_id)
        case DestroyInstance():
            nvml.destroy_instance(step.gpu_uuid, step.instance_id, (step.start, step.size))
