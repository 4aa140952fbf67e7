"""What mends a failed job: a changed request where one helps, else what to do. Pure.

    remedy_for(finding, request, fleet)  ─▶ Remedy: a sentence, and what its button does

`request` is the job's stored request; the next larger device is looked for on the GPUs that the
fleet has.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agents.contract.message import Message
from portal.diagnosis.larger_devices import RequestableFleet, larger_device
from portal.diagnosis.values import FailureFinding
from portal.jobs.failure_causes import FailureCause
from scheduler.core.request.quantities import (
    read_memory_mib,
    read_seconds,
    write_memory,
    write_seconds,
)

GIB_MIB = 1 << 10
_SIZE = re.compile(r"(?P<size>[0-9]{1,9}(?:\.[0-9]{0,3})?) (?P<unit>[MGT])iB")
_MIB = {"M": 1, "G": GIB_MIB, "T": GIB_MIB * GIB_MIB}


class RemedyAction(StrEnum):
    """What the button of a remedy does."""

    CHANGE = "change"
    """Opens the request with `changes` made, ready to be started."""
    EDIT = "edit"
    """Opens the request at `field`."""
    RETRY = "retry"
    """Submits the same request again."""
    NONE = "none"
    """There is no button."""


@dataclass(frozen=True, slots=True)
class Remedy:
    advice: Message
    action: RemedyAction = RemedyAction.NONE
    label: Message | None = None
    """Of the button."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    field: str = ""


def remedy_for(
    finding: FailureFinding, request: Mapping[str, Any], fleet: RequestableFleet
) -> Remedy:
    """The remedy of a cause, for this request."""
    match finding.cause:
        case FailureCause.GPU_MEMORY:
            return _gpu_memory(finding, request, fleet)
        case FailureCause.HOST_MEMORY:
            return _host_memory(finding, request, fleet)
        case FailureCause.SHARED_MEMORY:
            return _shared_memory(request, fleet)
        case FailureCause.TIME_LIMIT:
            return _time_limit(request, fleet)
    return REMEDIES[finding.cause]


def _gpu_memory(
    finding: FailureFinding, request: Mapping[str, Any], fleet: RequestableFleet
) -> Remedy:
    needed_mib = _needed_gpu_mib(finding.line.text if finding.line else "")
    larger = larger_device(request["device"], fleet, needed_mib)
    if larger is None:
        return Remedy(Message("No GPU here has more memory: use a smaller batch or model"))
    return _ask_again(
        Message("Ask for more GPU memory, or use a smaller batch or model"),
        larger.label,
        {"device": larger.device},
    )


def _host_memory(
    finding: FailureFinding, request: Mapping[str, Any], fleet: RequestableFleet
) -> Remedy:
    memory_mib = read_memory_mib(request["memory"])
    wanted_mib = max(2 * memory_mib, memory_mib + _size_in(finding.values.get("size", "")))
    larger_mib = _whole_gib(min(wanted_mib, fleet.host_memory_mib or wanted_mib))
    if larger_mib <= memory_mib:
        return Remedy(Message("No node has more memory: load less data at once"))
    amount = Message("%(size)s of memory", size=_shown(larger_mib))
    advice = Message("Ask for more memory, or load less data at once")
    return _ask_again(advice, amount, {"memory": write_memory(larger_mib)})


def _shared_memory(request: Mapping[str, Any], fleet: RequestableFleet) -> Remedy:
    memory_mib, shm_mib = read_memory_mib(request["memory"]), read_memory_mib(request["shm"])
    larger_mib = _whole_gib(2 * shm_mib)
    # Shared memory is a part of the memory.
    host_mib = max(memory_mib, _whole_gib(2 * larger_mib))
    advice = Message("Ask for more shared memory, or use fewer data loader workers")
    if fleet.host_memory_mib and host_mib > fleet.host_memory_mib:
        return Remedy(advice)
    changes = {"shm": write_memory(larger_mib)}
    if host_mib > memory_mib:
        changes["memory"] = write_memory(host_mib)
    return _ask_again(advice, Message("%(size)s of /dev/shm", size=_shown(larger_mib)), changes)


def _time_limit(request: Mapping[str, Any], fleet: RequestableFleet) -> Remedy:
    seconds = read_seconds(request["time_limit"])
    longer = min(2 * seconds, fleet.max_time_limit_seconds)
    if longer <= seconds:
        return Remedy(Message("No longer time limit is allowed: continue from a checkpoint"))
    advice = Message("Ask for more time, or continue from a checkpoint")
    amount = Message("a limit of %(time)s", time=write_seconds(longer))
    return _ask_again(advice, amount, {"time_limit": write_seconds(longer)})


def _ask_again(advice: Message, amount: Message, changes: Mapping[str, Any]) -> Remedy:
    label = Message("Ask again with %(amount)s", amount=amount)
    return Remedy(advice, RemedyAction.CHANGE, label, changes)


def _needed_gpu_mib(text: str) -> int:
    """In use, and what was to be added, by PyTorch's own figures; 0 if the line has none."""
    figures = {
        name: _size_in(match[0])
        for name, pattern in (
            ("tried", r"Tried to allocate [0-9.]{1,12} [MGT]iB"),
            (
                "total",
                r"total capacity of [0-9.]{1,12} [MGT]iB|[0-9.]{1,12} [MGT]iB total capacity",
            ),
            ("free", r"of which [0-9.]{1,12} [MGT]iB is free|[0-9.]{1,12} [MGT]iB free"),
        )
        if (match := re.search(pattern, text))
    }
    if figures.keys() != {"tried", "total", "free"}:
        return 0
    return max(0, figures["total"] - figures["free"] + figures["tried"])


def _size_in(text: str) -> int:
    """Mebibytes of "2.00 GiB" in a text; 0 if there is none."""
    match = _SIZE.search(text)
    return int(float(match["size"]) * _MIB[match["unit"]]) if match else 0


def _whole_gib(mib: int) -> int:
    """Rounded down to whole GiB above 1 GiB, so that no node is asked for more than it has."""
    return mib // GIB_MIB * GIB_MIB if mib > GIB_MIB else mib


def _shown(mib: int) -> str:
    return f"{mib // GIB_MIB} GiB" if mib % GIB_MIB == 0 else f"{mib} MiB"


def _edit(advice: Message, field_name: str, label: Message) -> Remedy:
    return Remedy(advice, RemedyAction.EDIT, label, field=field_name)


_RETRY = Message("Retry")
_IMAGE = Message("Choose another image")
_COMMAND = Message("Correct the command")
_VARIABLES = Message("Set the variable")

REMEDIES: dict[FailureCause, Remedy] = {
    FailureCause.DISK_FULL: _edit(
        Message("Write less, or reserve disk for the job"), "disk", Message("Reserve disk")
    ),
    FailureCause.TOO_FEW_GPUS: _edit(
        Message("Ask for one GPU for each process that the program starts"),
        "gpus",
        Message("Ask for more GPUs"),
    ),
    FailureCause.IMAGE_MISSING: _edit(
        Message("Check the name and the tag of the image"), "image", _IMAGE
    ),
    FailureCause.IMAGE_ACCESS: _edit(
        Message(
            "Check the name, or ask an admin of the project to set a credential for the registry"
        ),
        "image",
        _IMAGE,
    ),
    FailureCause.IMAGE_PULL: Remedy(
        Message("The registry or the node's engine failed: try again"), RemedyAction.RETRY, _RETRY
    ),
    FailureCause.FILES_ABSENT: _edit(
        Message("Send the code again, or start without it"), "code", Message("Choose the code")
    ),
    FailureCause.SECRET_ABSENT: _edit(
        Message("Set the secret again, or start without it"),
        "secrets",
        Message("Choose the secrets"),
    ),
    FailureCause.COMMAND_MISSING: _edit(
        Message("Use a command that the image has, or an image that has the command"),
        "command",
        _COMMAND,
    ),
    FailureCause.NOT_EXECUTABLE: _edit(
        Message("Start it with its interpreter, such as bash or python"), "command", _COMMAND
    ),
    FailureCause.MISSING_MODULE: _edit(
        Message("Use an image that has the module, or install it in the command"), "image", _IMAGE
    ),
    FailureCause.MISSING_LIBRARY: _edit(
        Message("Use an image with the libraries that the program was built for"), "image", _IMAGE
    ),
    FailureCause.MISSING_FILE: _edit(
        Message("Check the path: the job sees only its image and what is mounted"),
        "command",
        _COMMAND,
    ),
    FailureCause.PERMISSION: _edit(
        Message("Read and write where the job's user may, such as its working directory"),
        "command",
        _COMMAND,
    ),
    FailureCause.ARGUMENTS: _edit(
        Message("Check the arguments of the command"), "command", _COMMAND
    ),
    FailureCause.OPEN_FILES: Remedy(Message("Close files, or use fewer data loader workers")),
    FailureCause.PROCESS_LIMIT: Remedy(Message("Start fewer processes and threads")),
    FailureCause.NO_GPU: _edit(
        Message(
            "Use an image whose program is built for CUDA, and do not change CUDA_VISIBLE_DEVICES"
        ),
        "image",
        _IMAGE,
    ),
    FailureCause.DRIVER_TOO_OLD: _edit(
        Message("Use an image with an older CUDA, or ask an admin for a newer driver"),
        "image",
        _IMAGE,
    ),
    FailureCause.GPU_UNSUPPORTED: _edit(
        Message("Use an image that is built for this model, or ask for another model"),
        "image",
        _IMAGE,
    ),
    FailureCause.GPU_PROGRAM: Remedy(
        Message("Set CUDA_LAUNCH_BLOCKING=1 to see where: the error is in the program")
    ),
    FailureCause.COLLECTIVE_TIMEOUT: Remedy(
        Message(
            "Look at the logs of the other ranks: one was slow, or did not join the operation. "
            "With NCCL, the files nccl_trace_rank_… of its output have each rank's last collectives"
        )
    ),
    FailureCause.COLLECTIVE: Remedy(
        Message("Look at the logs of the other ranks; if none failed, try again"),
        RemedyAction.RETRY,
        _RETRY,
    ),
    FailureCause.PORT_IN_USE: Remedy(
        Message("Let the program choose a free port (port 0), or try again"),
        RemedyAction.RETRY,
        _RETRY,
    ),
    FailureCause.NETWORK: Remedy(
        Message("Check the address; nodes may have no way to the internet"),
        RemedyAction.RETRY,
        _RETRY,
    ),
    FailureCause.HUB_ACCESS: _edit(
        Message("Accept the terms of the model on its page, and give the job a token (HF_TOKEN)"),
        "env",
        _VARIABLES,
    ),
    FailureCause.SIGN_IN: _edit(
        Message("Give the job the token that the program asks for"), "env", _VARIABLES
    ),
    FailureCause.ASSERTION: Remedy(Message("The program checked something that did not hold")),
    FailureCause.EXCEPTION: Remedy(
        Message("The error is in the program: its traceback says where")
    ),
    FailureCause.CRASH: Remedy(Message("The error is in the program or in one of its libraries")),
    FailureCause.KILLED: Remedy(
        Message("Something inside the job ended it: the portal did not ask it to stop"),
    ),
    FailureCause.EXIT_CODE: Remedy(Message("The log shows no known error: look at its end")),
    FailureCause.NODE_FAULT: Remedy(
        Message("Not your code: try again"), RemedyAction.RETRY, _RETRY
    ),
    FailureCause.GPU_FAULT: Remedy(
        Message("Not your code: try again with another GPU"), RemedyAction.RETRY, _RETRY
    ),
    FailureCause.ENGINE: Remedy(
        Message("The container engine of the node refused: try again, or tell an admin"),
        RemedyAction.RETRY,
        _RETRY,
    ),
    FailureCause.NODE_REFUSAL: _edit(
        Message("Change what the node refuses, or ask an admin about its policy"),
        "command",
        Message("Change the request"),
    ),
    FailureCause.NOT_READY: Remedy(
        Message("Its containers were not ready in time: try again"), RemedyAction.RETRY, _RETRY
    ),
    FailureCause.RANK_ABSENT: Remedy(
        Message("The node of that rank did not start it: try again"), RemedyAction.RETRY, _RETRY
    ),
    FailureCause.HUNG: Remedy(
        Message(
            "Most likely a collective operation hung: look at the log of the rank that fell silent "
            "first, then try again"
        ),
        RemedyAction.RETRY,
        _RETRY,
    ),
    FailureCause.NETWORK_CHECK: Remedy(
        Message(
            "Not your code: admins have been told, and it is placed on other nodes if it can be"
        ),
        RemedyAction.RETRY,
        _RETRY,
    ),
    FailureCause.DRAINED: Remedy(
        Message("An admin emptied its node: try again"), RemedyAction.RETRY, _RETRY
    ),
    FailureCause.DEPENDENCY: Remedy(
        Message("Fix the job that it depends on, then retry both"), RemedyAction.RETRY, _RETRY
    ),
    FailureCause.REFUSED: Remedy(Message("Ask the admin of the project why")),
    FailureCause.UNKNOWN: Remedy(
        Message("It is not known how it ended: try again"), RemedyAction.RETRY, _RETRY
    ),
}
