"""The interface of launchers: pure functions of a replica, and rules about requests."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.contract.documents import DesiredReplica, LauncherName, Rendezvous


@dataclass(frozen=True, slots=True)
class LauncherCall:
    """A command that begins with a program that may be a launcher."""

    program: str
    """Its name without the folder, or the Python module after `-m`."""
    interpreter: tuple[str, ...]
    """The Python that runs its scripts, with the interpreter's own options."""
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LaunchedProgram:
    """The program that a call of a launcher starts."""

    command: tuple[str, ...]
    processes: int = 0
    """Per replica; 0 if the call leaves it to the launcher."""


class Launcher(ABC):
    """Starts the processes of one replica. Each file of this package has one, as LAUNCHER."""

    name: ClassVar[LauncherName]
    summary: ClassVar[str]
    """Its entry in the list of the request page, which translates it."""
    starts_several: ClassVar[bool] = True
    """Whether it starts several processes in a replica. One that does not starts one."""
    keeps_entrypoint: ClassVar[bool] = False
    """Whether the image's entrypoint runs, with the command as its arguments."""
    programs: ClassVar[frozenset[str]] = frozenset()
    """Programs and Python modules by which people start it themselves."""

    @abstractmethod
    def environment(self, replica: DesiredReplica, rendezvous: Rendezvous) -> dict[str, str]:
        """Its variables, beside those that every replica gets (`agents.runtime.launch`). Their
        names are reserved in `agents.contract.environment`."""

    @abstractmethod
    def command(self, replica: DesiredReplica) -> list[str]:
        """The words to execute. An empty list leaves the command to the image."""

    def default_processes(self, gpus: int) -> int:
        """Processes of a replica with `gpus` whole GPUs whose request does not say how many."""
        return max(gpus, 1) if self.starts_several else 1

    def launched_program(self, call: LauncherCall) -> LaunchedProgram | None:
        """The program that a call of one of its `programs` starts, if this launcher can start the
        same; None if options of the call would be lost."""
        return None


def launcher_call(command: Sequence[str]) -> LauncherCall | None:
    """The command as a call of its first program, or of the module that its Python runs. None if
    there is no such program, as for a Python script."""
    if not command:
        return None
    program = command[0].rsplit("/", 1)[-1]
    if not program.startswith("python"):
        python = f"{command[0].removesuffix(program)}python"
        return LauncherCall(program, (python,), tuple(command[1:]))
    at = 1
    while at < len(command) and command[at].startswith("-") and command[at][:2] not in ("-m", "-c"):
        at += 2 if command[at] in ("-W", "-X") else 1
    # Python reads "-m torch" and "-mtorch" alike.
    flag, *words = command[at:] or [""]
    if flag.startswith("-m") and flag != "-m":
        words = [flag.removeprefix("-m"), *words]
    if not flag.startswith("-m") or not words:
        return None
    return LauncherCall(words[0], tuple(command[:at]), tuple(words[1:]))
