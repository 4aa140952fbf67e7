"""Every launcher by its name: each name of the contract has the file of that name here."""

from collections.abc import Mapping
from importlib import import_module

from agents.contract.launcher_names import LauncherName
from agents.contract.message import NO_MESSAGE, Message
from agents.launchers.base import Launcher, LaunchRefusal, LaunchRequest


def _launcher(name: LauncherName) -> Launcher:
    launcher = import_module(f"agents.launchers.{name.replace('-', '_')}").LAUNCHER
    if not isinstance(launcher, Launcher) or launcher.name is not name:
        raise TypeError(f"agents/launchers/: the file of {name} has no launcher of this name")
    return launcher


LAUNCHERS: Mapping[LauncherName, Launcher] = {name: _launcher(name) for name in LauncherName}
# The launcher of requests that want several processes in a replica and name none.
SEVERAL = LauncherName.TORCHRUN


def processes_refusal(name: LauncherName, processes: int) -> Message:
    """Why this launcher cannot start that many processes in a replica; empty if it can."""
    if processes < 2 or LAUNCHERS[name].starts_several:
        return NO_MESSAGE
    return Message(
        "launcher %(launcher)s starts one process per replica; for several choose %(several)s",
        launcher=str(name),
        several=str(SEVERAL),
    )


def launch_refusal(name: LauncherName, request: LaunchRequest) -> LaunchRefusal | None:
    """Why this launcher cannot start such a request; None if it can."""
    launcher = LAUNCHERS[name]
    if why := processes_refusal(name, request.processes):
        return LaunchRefusal("processes", why)
    if twice := sorted(launcher.variables & request.env.keys()):
        why = Message(
            "%(name)s is set by launcher %(launcher)s: remove it", name=twice[0], launcher=str(name)
        )
        return LaunchRefusal(f"env.{twice[0]}", why)
    return launcher.request_refusal(request)
