"""What the servers of notebooks have in common: a person works in them through the portal.

They start in the person's own folder of the volume at HOMES, and have it as HOME, if there is one.
In a container it is the home of /etc/passwd as well: RStudio Server clears the environment of its
sessions, and takes HOME from there.

Such a server listens on the loopback address of its replica alone, and asks nobody for a password:
the portal lets its owner through, and whom they share it with (`portal/apps/access.py`). So where
it listens and whom it lets in is set here, and the command says nothing about it.
"""

from collections.abc import Mapping
from typing import ClassVar

from agents.contract.documents import DesiredReplica
from agents.contract.message import Message
from agents.contract.volumes import volume_variable
from agents.launchers.base import Launch, Launcher, LaunchRefusal, LaunchRequest, launcher_call
from agents.launchers.command_options import (
    option_count,
    option_name,
    option_value,
    without_options,
)
from agents.launchers.none import LAUNCHER as NO_LAUNCHER
from agents.workspace.job_user import home_name

LOOPBACK = "127.0.0.1"
MOST_PORT = 65_535
HOMES = "/homes"
"""Where a container has the volume in which each person has a folder."""
PROGRAM = "notebook.sh"
# A plain process finds the volume by its variable alone.
TEXT = """\
#!/bin/sh
home="${%(variable)s}/%(person)s"
mkdir -p -m 700 "$home" && cd "$home" || exit 1
export HOME="$home"
exec "$@"
"""


class NotebookServer(Launcher):
    """Adds to the command of a server where it listens and whom it lets in."""

    starts_several = False
    keeps_command = True
    title: ClassVar[str]
    """Its name in sentences."""
    default_command: ClassVar[tuple[str, ...]]
    """Of a request that has none."""
    listen_options: ClassVar[tuple[str, ...]]
    """By which it listens at the loopback address, without a password."""
    app: ClassVar[str]
    """Its name among the apps of its job."""
    port: ClassVar[int]
    """Where it listens if the command does not say."""
    port_options: ClassVar[frozenset[str]]
    """Spellings of the option that says so."""
    door_options: ClassVar[frozenset[str]]
    """Options by which it would listen elsewhere, or let others in: all with a value."""

    def port_of(self, command: tuple[str, ...]) -> int:
        """Where the server of this command listens."""
        port = option_count(command, self.port_options)
        return port if port and port <= MOST_PORT else self.port

    def environment(self, launch: Launch) -> dict[str, str]:
        return NO_LAUNCHER.environment(launch)

    def command(self, launch: Launch) -> list[str]:
        """The options stand right after the program: what follows is the user's, word for word."""
        words = list(launch.replica.command)
        call = launcher_call(words)
        own = call.as_one_of(self.programs) if call else None
        if own is None:
            return words
        given = own.arguments
        has_port = option_value(given, self.port_options) is not None
        added = [*self.listen_options, *(() if has_port else (f"--port={self.port}",))]
        started = [*words[: len(words) - len(given)], *added, *given]
        return ["sh", str(launch.folder / PROGRAM), *started] if self.files(launch) else started

    def home(self, replica: DesiredReplica) -> str:
        return f"{HOMES}/{home_name(replica.user)}" if _home_variable(replica) else ""

    def files(self, launch: Launch) -> Mapping[str, str]:
        """What leads it home."""
        variable = _home_variable(launch.replica)
        names = {"variable": variable, "person": home_name(launch.replica.user)}
        return {PROGRAM: TEXT % names} if variable else {}

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        if request.replicas > 1:
            why = Message(
                "%(program)s runs in one replica: request one replica with all GPUs",
                program=self.title,
            )
            return LaunchRefusal("replicas", why, {"replicas": 1})
        call = launcher_call(request.command)
        own = call.as_one_of(self.programs) if call else None
        if own is None:
            return self._other_program()
        doors = [name for word in own.arguments if (name := option_name(word)) in self.door_options]
        if doors:
            why = Message(
                "%(option)s is set by launcher %(launcher)s, which lets the owner of the notebook "
                "in: remove it",
                option=doors[0],
                launcher=str(self.name),
            )
            kept = without_options(request.command, self.door_options)
            return LaunchRefusal("command", why, {"command": kept})
        return None

    def _other_program(self) -> LaunchRefusal:
        why = Message(
            "launcher %(launcher)s starts %(example)s: write that, or leave the command empty",
            launcher=str(self.name),
            example=" ".join(self.default_command),
        )
        return LaunchRefusal("command", why, {"command": list(self.default_command)})


def _home_variable(replica: DesiredReplica) -> str:
    """By which it finds the volume at HOMES; empty without one."""
    found = (volume_variable(volume.name) for volume in replica.volumes if volume.path == HOMES)
    return next(found, "")
