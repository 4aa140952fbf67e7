"""A launcher at the beginning of a command, under another one: each process would start all ranks.

Under a launcher that keeps commands, such as none, it is allowed: it runs once per replica, as
written.
Launchers inside a shell script are not recognised.
"""

from collections.abc import Sequence
from typing import Any

from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.contract.replica_limits import MAX_PROCESSES
from agents.launchers.base import LauncherCall, LaunchRefusal, LaunchRequest, launcher_call
from agents.launchers.registry import LAUNCHERS

# Launchers without a file here.
FOREIGN_PROGRAMS = frozenset(
    (
        "horovodrun",
        "mpiexec.hydra",
        "srun",
    )
)
PROGRAMS = FOREIGN_PROGRAMS.union(*(launcher.programs for launcher in LAUNCHERS.values()))


def nested_launcher(launcher: LauncherName, request: LaunchRequest) -> LaunchRefusal | None:
    """The refusal of a launcher with which the command begins; None if there is none, or if the
    request's own launcher keeps the command as it is."""
    call = None if LAUNCHERS[launcher].keeps_command else _nested_call(request.command)
    if call is None:
        return None
    changes = _without_program(launcher, call, request.gpus)
    if not changes and request.replicas == 1:
        changes = {"launcher": str(LauncherName.NONE), "processes": 1}
    return LaunchRefusal("command", nested_sentence(call.program, launcher), changes)


def nested_sentence(program: str, launcher: LauncherName) -> Message:
    """Why a command that begins with `program` cannot run under `launcher`."""
    return Message(
        "the command begins with %(program)s, and launcher %(launcher)s would start that in "
        "every process: leave one of them out",
        program=program,
        launcher=str(launcher),
    )


def leading_launcher(command: Sequence[str]) -> str:
    """The launcher with which the command begins; empty if it begins with another program."""
    call = _nested_call(command)
    return call.program if call else ""


def _nested_call(command: Sequence[str]) -> LauncherCall | None:
    """The command as a call of the launcher with which it begins; None if there is none."""
    call = launcher_call(command)
    return call.as_one_of(PROGRAMS) if call else None


def _without_program(launcher: LauncherName, call: LauncherCall, gpus: int) -> dict[str, Any]:
    """The request under the launcher that the command names, without it in the command. If two
    have such a program, the request's own goes on."""
    owners = [each for each in LAUNCHERS.values() if call.program in each.programs]
    owner = LAUNCHERS[launcher] if LAUNCHERS[launcher] in owners else next(iter(owners), None)
    if owner and owner.keeps_command:
        return {"launcher": str(owner.name), "processes": 1}
    launched = owner.launched_program(call) if owner else None
    if owner is None or launched is None or _nested_call(launched.command):
        return {}
    changes: dict[str, Any] = {"launcher": str(owner.name), "command": list(launched.command)}
    if 0 < launched.processes <= (gpus or MAX_PROCESSES):
        changes["processes"] = launched.processes
    return changes
