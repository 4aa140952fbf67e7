"""A launcher at the beginning of a command, under another one: each process would start all ranks.

Under a launcher of one process such a command is allowed: it runs once per replica, as written.
Launchers inside a shell script are not recognised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.contract.documents import MAX_PROCESSES, LauncherName
from agents.contract.message import Message
from agents.launchers.base import Launcher, LauncherCall, launcher_call
from agents.launchers.registry import LAUNCHERS

# Launchers without a file here.
FOREIGN_PROGRAMS = frozenset(
    (
        "accelerate.commands.launch",
        "deepspeed",
        "deepspeed.launcher.runner",
        "horovodrun",
        "mpiexec",
        "mpiexec.hydra",
        "mpirun",
        "orterun",
        "prterun",
        "srun",
    )
)


@dataclass(frozen=True, slots=True)
class NestedLauncher:
    """A launcher under another one."""

    program: str
    """As in the command."""
    launcher: LauncherName
    """The one above it."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the request that leave one launcher; empty if no change keeps its meaning."""

    @property
    def why(self) -> Message:
        return Message(
            "the command begins with %(program)s, and launcher %(launcher)s would start that in "
            "every process: leave one of them out",
            program=self.program,
            launcher=str(self.launcher),
        )


def nested_launcher(
    launcher: LauncherName, command: Sequence[str], *, replicas: int, gpus: int
) -> NestedLauncher | None:
    """The launcher with which the command begins, unless the request has launcher none. `gpus`:
    whole GPUs per replica."""
    call = launcher_call(command)
    if not LAUNCHERS[launcher].starts_several or call is None or not _is_launcher(call):
        return None
    changes = _without_program(call, gpus)
    if not changes and replicas == 1:
        changes = {"launcher": str(LauncherName.NONE), "processes": 1}
    return NestedLauncher(call.program, launcher, changes)


def _without_program(call: LauncherCall, gpus: int) -> dict[str, Any]:
    """The request under the launcher that the command names, without it in the command."""
    owner = _owner(call)
    launched = owner.launched_program(call) if owner else None
    inner = launcher_call(launched.command) if launched else None
    if owner is None or launched is None or (inner and _is_launcher(inner)):
        return {}
    changes: dict[str, Any] = {"launcher": str(owner.name), "command": list(launched.command)}
    if 0 < launched.processes <= (gpus or MAX_PROCESSES):
        changes["processes"] = launched.processes
    return changes


def _owner(call: LauncherCall) -> Launcher | None:
    return next((each for each in LAUNCHERS.values() if call.program in each.programs), None)


def _is_launcher(call: LauncherCall) -> bool:
    is_accelerate = call.program == "accelerate" and call.arguments[:1] == ("launch",)
    return is_accelerate or call.program in FOREIGN_PROGRAMS or _owner(call) is not None
