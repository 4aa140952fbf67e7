"""Why a step was refused, with the name of the process that keeps the device open."""

import os
from collections.abc import Iterable
from dataclasses import replace

from agents.facts.partitions import PartitionProblem
from agents.host.device_users import (
    MONITORS,
    DeviceUser,
    device_files,
    program_name,
    scan_device_users,
)
from agents.host.files import HostFiles
from agents.nvml.errors import NvmlCode, NvmlFailure
from agents.nvml.processes import GpuProcess, gpu_processes, minor_number
from agents.partitioning.execute import driver_problem
from agents.partitioning.steps import CreateInstance, PartitionStep, SetMigMode, gpu_of

MAX_NAMED = 4
# It keeps every GPU open and never blocks a change. The first 15 characters of its name.
HARMLESS = "nvidia-persiste"
END_OR_WAIT = "end it, or wait for it"
PAUSE_MONITOR = "pause it: sudo systemctl stop nvidia-dcgm"
NO_VISIBLE_USER = "No process was found that holds it; check as root: sudo fuser -v /dev/nvidia*"


def explained_problem(
    files: HostFiles, step: PartitionStep, failure: NvmlFailure
) -> PartitionProblem:
    """The driver's error and, if the GPU or the instance is in use, the processes that hold it."""
    problem = driver_problem(step, failure)
    if failure.code is not NvmlCode.IN_USE:
        return problem
    return replace(problem, sentence=f"{problem.sentence}. {_users_sentence(files, step)}")


def blocking_users(files: HostFiles, step: PartitionStep) -> list[DeviceUser]:
    """The processes that block a step: those that NVML lists, else those with its files open.

    Leaked handles and monitors are on no list of NVML's (DCGM #95, go-nvml #146)."""
    gpu = gpu_of(step)
    listed = gpu_processes(gpu)
    if pids := {process.pid for process in listed if _is_blocking(process, step)}:
        return [DeviceUser(pid, program_name(files, pid)) for pid in sorted(pids)]
    minor = minor_number(gpu)
    if isinstance(step, SetMigMode | CreateInstance):
        opened = device_files(files, minor)
    else:
        opened = device_files(files, minor, step.instance_id)
    # A process on another instance has the GPU's file open too, and does not block the step.
    not_blocking = {process.pid for process in listed} | {os.getpid()}
    scan = scan_device_users(
        files,
        lambda path: path in opened,
        is_candidate=lambda user: user.pid not in not_blocking and user.program != HARMLESS,
    )
    return list(scan.users) if scan else []


def _is_blocking(process: GpuProcess, step: PartitionStep) -> bool:
    match step:
        case SetMigMode():
            return True
        case CreateInstance():
            return process.gpu_instance < 0
        case _:
            return process.gpu_instance == step.instance_id


def _users_sentence(files: HostFiles, step: PartitionStep) -> str:
    try:
        users = blocking_users(files, step)
    except NvmlFailure:
        users = []
    if not users:
        return NO_VISIBLE_USER
    mend = PAUSE_MONITOR if any(user.program in MONITORS for user in users) else END_OR_WAIT
    return f"Held by {_names(users)}: {mend}"


def _names(users: Iterable[DeviceUser]) -> str:
    names = [str(user) for user in users]
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
