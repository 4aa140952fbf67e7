"""Why a step was refused, with the name of the process that stands in its way."""

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
# It keeps every GPU open and is never in the way. The kernel's 15 characters of its name.
HARMLESS = "nvidia-persiste"
END_OR_WAIT = "end it, or wait for it"
PAUSE_MONITOR = "pause it: sudo systemctl stop nvidia-dcgm"
NO_VISIBLE_USER = "No process is seen that holds it; look as root: sudo fuser -v /dev/nvidia*"


def explained_problem(
    files: HostFiles, step: PartitionStep, failure: NvmlFailure
) -> PartitionProblem:
    """The driver's words, and who holds the GPU or the instance where it is in use."""
    plain = driver_problem(step, failure)
    if failure.code is not NvmlCode.IN_USE:
        return plain
    return replace(plain, sentence=f"{plain.sentence}. {_users_sentence(files, step)}")


def blocking_users(files: HostFiles, step: PartitionStep) -> list[DeviceUser]:
    """Who is in the way of a step: the processes that NVML lists, else those that have its files
    open. Handles that leak, and monitors, are on no list (DCGM #95, go-nvml #146)."""
    gpu = gpu_of(step)
    listed = gpu_processes(gpu)
    if found := [c for c in listed if _is_in_the_way(c, step)]:
        return [DeviceUser(pid, program_name(files, pid)) for pid in sorted({c.pid for c in found})]
    minor = minor_number(gpu)
    if isinstance(step, SetMigMode | CreateInstance):
        opened = device_files(files, minor)
    else:
        opened = device_files(files, minor, step.instance_id)
    # Whoever works on another instance has the GPU's file open too, and is not in the way.
    beside = {client.pid for client in listed} | {os.getpid()}
    seen = scan_device_users(
        files,
        lambda path: path in opened,
        is_candidate=lambda h: h.pid not in beside and h.program != HARMLESS,
    )
    return list(seen.users) if seen else []


def _is_in_the_way(client: GpuProcess, step: PartitionStep) -> bool:
    match step:
        case SetMigMode():
            return True
        case CreateInstance():
            return client.gpu_instance < 0
        case _:
            return client.gpu_instance == step.instance_id


def _users_sentence(files: HostFiles, step: PartitionStep) -> str:
    try:
        found = blocking_users(files, step)
    except NvmlFailure:
        found = []
    if not found:
        return NO_VISIBLE_USER
    mend = PAUSE_MONITOR if any(holder.program in MONITORS for holder in found) else END_OR_WAIT
    return f"Held by {_names(found)}: {mend}"


def _names(users: Iterable[DeviceUser]) -> str:
    names = [str(holder) for holder in users]
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
