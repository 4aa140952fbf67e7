"""The interface of launchers: pure functions of a replica's start, and rules about requests."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from agents.contract.documents import DesiredReplica, Rendezvous, SliceKind
from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.workspace.folders import IN_CONTAINER


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of one replica."""

    replica: DesiredReplica
    rendezvous: Rendezvous
    folder: Path = IN_CONTAINER.launcher
    """Where its program finds the launcher's files."""

    @property
    def ranks(self) -> int:
        """Processes of the whole gang."""
        return self.replica.world * self.replica.processes


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What a launcher reads of a request, or of a replica, before anything is placed."""

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The user's own variables."""
    replicas: int = 1
    processes: int = 1
    """Per replica."""
    gpus: int = 0
    """Whole GPUs per replica; 0 for a slice, a share or no device."""

    @classmethod
    def of_replica(cls, replica: DesiredReplica) -> "LaunchRequest":
        return cls(
            command=replica.command,
            env=replica.env,
            replicas=replica.world,
            processes=replica.processes,
            gpus=sum(device.kind is SliceKind.GPU for device in replica.devices),
        )

    @property
    def ranks(self) -> int:
        """Processes of the whole gang."""
        return self.replicas * self.processes


@dataclass(frozen=True, slots=True)
class LaunchRefusal:
    """Why a launcher cannot start a request."""

    field: str
    """Its dotted path in the request."""
    why: Message
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Changed fields that mend the request; empty if none do."""


@dataclass(frozen=True, slots=True)
class LauncherCall:
    """A command that begins with a program that may be a launcher."""

    program: str
    """Its name without the folder, or the Python module after `-m`."""
    interpreter: tuple[str, ...]
    """The Python that runs its scripts, with the interpreter's own options."""
    arguments: tuple[str, ...]

    def as_one_of(self, programs: Collection[str]) -> "LauncherCall | None":
        """The call, without the subcommand of its program, if it is one of these (see
        `Launcher.programs`)."""
        if self.program in programs:
            return self
        with_subcommand = " ".join((self.program, *self.arguments[:1]))
        if with_subcommand not in programs:
            return None
        return replace(self, program=with_subcommand, arguments=self.arguments[1:])


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
    keeps_command: ClassVar[bool] = False
    """Whether the command runs as it is written, even if it begins with a launcher."""
    keeps_entrypoint: ClassVar[bool] = False
    """Whether the image's entrypoint runs, with the command as its arguments."""
    chooses_devices: ClassVar[bool] = False
    """Whether its program gives processes their devices by number: only in a container these are
    the replica's own."""
    joins_replicas: ClassVar[bool] = False
    """Whether replicas on one node can be one, with the processes of all: each finds its GPU by
    LOCAL_RANK, and nothing but the numbers of the world tells the two apart."""
    shares_key: ClassVar[bool] = False
    """Whether the replicas of a gang prove to each other that they belong together: each then has
    the secret GANG_KEY of its attempt."""
    programs: ClassVar[frozenset[str]] = frozenset()
    """Programs, with a subcommand if they have several ("accelerate launch"), and Python modules
    by which people start it themselves."""
    variables: ClassVar[frozenset[str]] = frozenset()
    """Variables of its environment that a request may set under other launchers, but not here."""
    sets: ClassVar[frozenset[str]] = frozenset()
    """Variables that its program sets in each process, so that nothing here sets them; beside
    MASTER_ADDR and MASTER_PORT, which every replica has."""

    @abstractmethod
    def environment(self, launch: Launch) -> dict[str, str]:
        """Its variables, beside those that every replica gets (`agents.launchers.launch`). Their
        names are in `variables`, or reserved in `agents.contract.environment`."""

    @abstractmethod
    def command(self, launch: Launch) -> list[str]:
        """The words to execute. An empty list leaves the command to the image."""

    def files(self, launch: Launch) -> Mapping[str, str]:
        """The texts of its files in `launch.folder`, by their names, which are constants. Whether
        there are any does not depend on the rendezvous. Programs can read and execute them."""
        return {}

    def home(self, replica: DesiredReplica) -> str:
        """The folder in its container that /etc/passwd names as the home of its user; empty for
        that of every replica."""
        return ""

    def request_refusal(self, request: LaunchRequest) -> LaunchRefusal | None:
        """Why it cannot start this request, asked before the job is queued and again by the node;
        None if it can. `processes` fits the GPUs already."""
        return None

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
