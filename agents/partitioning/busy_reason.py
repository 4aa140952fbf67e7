"""Why a step was refused, with the name of the process that stands in its way."""

import os
from collections.abc import Iterable
from dataclasses import replace

from agents.facts.partitions import Problem
from agents.host.device_users import MONITORS, Holder, files_of, program_of, scan
from agents.host.files import HostFiles
from agents.nvml.errors import NvmlCode, NvmlFailure
from agents.nvml.processes import Client, clients, minor_number
from agents.partitioning.execute import plainly
from agents.partitioning.steps import Create, SetMode, Step, gpu_of

MOST_NAMED = 4
# It keeps every GPU open and is never in the way. The kernel's 15 characters of its name.
HARMLESS = "nvidia-persiste"
LET_GO = "end it, or wait for it"
PAUSE = "pause it: sudo systemctl stop nvidia-dcgm"
LOOK = "No process is seen that holds it; look as root: sudo fuser -v /dev/nvidia*"


def explain(files: HostFiles, step: Step, failure: NvmlFailure) -> Problem:
    """The driver's words, and who holds the GPU or the instance where it is in use."""
    plain = plainly(step, failure)
    if failure.code is not NvmlCode.IN_USE:
        return plain
    return replace(plain, sentence=f"{plain.sentence}. {_who(files, step)}")


def holders(files: HostFiles, step: Step) -> list[Holder]:
    """Who is in the way of a step: the processes that NVML lists, else those that have its files
    open. Handles that leak, and monitors, are on no list (DCGM #95, go-nvml #146)."""
    gpu = gpu_of(step)
    listed = clients(gpu)
    if found := [c for c in listed if _is_in_the_way(c, step)]:
        return [Holder(pid, program_of(files, pid)) for pid in sorted({c.pid for c in found})]
    minor = minor_number(gpu)
    if isinstance(step, SetMode | Create):
        opened = files_of(files, minor)
    else:
        opened = files_of(files, minor, step.instance_id)
    # Whoever works on another instance has the GPU's file open too, and is not in the way.
    beside = {client.pid for client in listed} | {os.getpid()}
    seen = scan(
        files,
        lambda path: path in opened,
        among=lambda h: h.pid not in beside and h.program != HARMLESS,
    )
    return list(seen.holders) if seen else []


def _is_in_the_way(client: Client, step: Step) -> bool:
    match step:
        case SetMode():
            return True
        case Create():
            return client.gpu_instance < 0
        case _:
            return client.gpu_instance == step.instance_id


def _who(files: HostFiles, step: Step) -> str:
    try:
        found = holders(files, step)
    except NvmlFailure:
        found = []
    if not found:
        return LOOK
    mend = PAUSE if any(holder.program in MONITORS for holder in found) else LET_GO
    return f"Held by {_names(found)}: {mend}"


def _names(found: Iterable[Holder]) -> str:
    names = [str(holder) for holder in found]
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
