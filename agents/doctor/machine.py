"""What checks can read of a machine: files, the output of a fixed list of programs (without a
shell), the Docker Engine's info, and NVML. Nothing is changed."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from agents.admission.policy import NodePolicy
from agents.admission.volume_roots import DriverRoot, VolumeRoot
from agents.contract.documents import RuntimeKind
from agents.facts.gpus import DriverVersions, GpuFacts
from agents.host.files import FileTree
from agents.host.private_files import Access, path_access
from agents.host.programs import SEARCH_PATH
from agents.host.system_reserve import HostCapacity, host_capacity
from agents.nvml.errors import NvmlFailure
from agents.nvml.processes import is_persistent
from agents.nvml.session import Nvml
from agents.overlay.interfaces import address_towards
from agents.overlay.offer import OverlayCapability, overlay_capability, overlay_rules
from agents.route.portal_route import PortalRoute
from agents.route.reading import AddressReading, read_route
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_engine import EngineApi, EngineConnection, connect_engine
from agents.runtime.docker_volumes import volume_drivers
from agents.volumes.caches import SharedCaches
from agents.volumes.driver_roots import missing_drivers
from agents.volumes.roots import VolumeRoots

PROGRAM_SECONDS = 5
ENGINE_SECONDS = 10


class ProbeCommand(Enum):
    """Every program that checks run, with its arguments. All are read-only."""

    RUNC = ("runc", "--version")
    TOOLKIT = ("nvidia-ctk", "--version")
    TOOLKIT_CLI = ("nvidia-container-cli", "--version")
    CDI = ("nvidia-ctk", "cdi", "list")
    FABRIC_MANAGER = ("nv-fabricmanager", "--version")
    FABRIC_ACTIVE = ("systemctl", "is-active", "nvidia-fabricmanager")
    APT = ("apt-config", "dump")
    APT_HOLDS = ("apt-mark", "showhold")
    TIME = ("timedatectl", "show")
    CHRONY = ("chronyc", "-c", "tracking")


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """A program's exit code, and its stdout and stderr together."""

    code: int
    text: str


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """A file system's size and its free space for root."""

    total_mib: int
    free_mib: int


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What NVML reports: versions, GPUs by index, UUIDs of the MIG instances."""

    versions: DriverVersions
    gpus: tuple[GpuFacts, ...]
    slices: tuple[str, ...] = ()
    # Indexes of the GPUs whose persistence mode is off.
    not_persistent: tuple[int, ...] = ()


class Machine(Protocol):
    """The machine as the checks see it. What is missing or not readable is None."""

    # The agent's folder, which its first start creates.
    home: str
    # The user that runs the agent.
    user: int
    runtime: RuntimeKind
    simulated: bool
    # The node owner's rules, on which some checks depend.
    policy: NodePolicy

    def text(self, path: str) -> str | None:
        """A file's text; a `.gz` file is decompressed."""

    def names(self, path: str) -> tuple[str, ...] | None:
        """A folder's entries, sorted."""

    def link(self, path: str) -> str | None:
        """The target of a symbolic link, unresolved."""

    def output(self, command: ProbeCommand) -> CommandOutput | None:
        """None if the program is not installed or did not end in time."""

    def disk(self, path: str) -> DiskUsage | None: ...

    def access(self, path: str) -> Access | None:
        """A path's owner and mode."""

    @property
    def folder_problems(self) -> tuple[str, ...]:
        """What is wrong with the volume roots and caches of the policy."""

    @property
    def capacity(self) -> HostCapacity:
        """All CPUs that jobs could use, and all memory."""

    @property
    def engine(self) -> Mapping[str, Any] | None:
        """The Docker Engine's `/info`."""

    @property
    def engine_api(self) -> EngineApi | None:
        """The API version that the agent uses with the engine."""

    @property
    def engine_failure(self) -> str:
        """Why the agent could not use the engine; empty if it can."""

    @property
    def driver(self) -> DriverFacts | None: ...

    @property
    def overlay(self) -> OverlayCapability | None:
        """What it can do for gangs over several nodes; None if the policy wants nothing of it."""

    @property
    def portal(self) -> tuple[AddressReading, ...]:
        """The portal by each of its addresses; empty if none is set."""


class RealMachine(FileTree):
    """This machine, for one examination: each program and API is called at most once."""

    def __init__(
        self,
        home: Path,
        runtime: RuntimeKind,
        nvml: Nvml | None,
        *,
        simulated: bool,
        policy: NodePolicy | None = None,
        route: PortalRoute | None = None,
        address: str = "",
    ) -> None:
        """`address`: the node's for other nodes; empty for that of its way to the portal."""
        super().__init__(Path("/"))
        self.home, self.user = str(home.absolute()), os.geteuid()
        self.runtime = runtime
        self.simulated = simulated
        self.policy = policy or NodePolicy()
        self._nvml = nvml
        self._route = route
        self._address = address
        self._outputs: dict[ProbeCommand, CommandOutput | None] = {}

    def output(self, command: ProbeCommand) -> CommandOutput | None:
        if command not in self._outputs:
            self._outputs[command] = _run(command)
        return self._outputs[command]

    def disk(self, path: str) -> DiskUsage | None:
        at = Path(path)
        if path == self.home:
            # Before the first start: the disk that it will be on.
            at = next(folder for folder in (at, *at.parents) if folder.exists())
        try:
            usage = shutil.disk_usage(at)
        except OSError:
            return None
        return DiskUsage(usage.total >> 20, usage.free >> 20)

    def access(self, path: str) -> Access | None:
        try:
            return path_access(Path(path))
        except OSError:
            return None

    @property
    def folder_problems(self) -> tuple[str, ...]:
        drivers = [root for root in self.policy.volumes if isinstance(root, DriverRoot)]
        folders = [root for root in self.policy.volumes if isinstance(root, VolumeRoot)]
        roots, caches = VolumeRoots(folders), SharedCaches(self.policy.caches)
        # The engine is asked only where its drivers are offered.
        has = volume_drivers(self.engine or {}) if drivers else frozenset()
        return (*roots.problems(), *missing_drivers(drivers, has), *caches.problems())

    @property
    def engine(self) -> Mapping[str, Any] | None:
        return None if isinstance(self._engine, str) else self._engine.info

    @property
    def engine_api(self) -> EngineApi | None:
        return None if isinstance(self._engine, str) else self._engine.api

    @property
    def engine_failure(self) -> str:
        return self._engine if isinstance(self._engine, str) else ""

    @cached_property
    def _engine(self) -> EngineConnection | str:
        """With a closed client; or why there is none."""
        try:
            found = connect_engine(ENGINE_SECONDS)
        except RuntimeFailure as failure:
            return failure.sentence
        found.client.close()
        return found

    @cached_property
    def portal(self) -> tuple[AddressReading, ...]:
        return read_route(self._route) if self._route and self._route.addresses else ()

    @cached_property
    def overlay(self) -> OverlayCapability | None:
        if (rules := overlay_rules(self.policy)) is None:
            return None
        urls = self._route.addresses if self._route else ()
        return overlay_capability(rules, self._address or address_towards(urls))

    @property
    def capacity(self) -> HostCapacity:
        return host_capacity()

    @cached_property
    def driver(self) -> DriverFacts | None:
        if self._nvml is None:
            return None
        try:
            gpus = tuple(self._nvml.devices())
            slices = [uuid for gpu in gpus if gpu.mig_current for uuid in self._slices(gpu.uuid)]
            asleep = tuple(gpu.index for gpu in gpus if not is_persistent(gpu.uuid))
            return DriverFacts(self._nvml.versions(), gpus, tuple(slices), asleep)
        except NvmlFailure:
            return None

    def _slices(self, gpu_uuid: str) -> list[str]:
        """Empty for a GPU whose instances cannot be read: the agent reports it as unhealthy."""
        try:
            found = self._nvml.instances(gpu_uuid) if self._nvml else []
        except NvmlFailure:
            return []
        return [instance.uuid for instance in found if instance.uuid]


def _run(command: ProbeCommand) -> CommandOutput | None:
    program = shutil.which(command.value[0], path=SEARCH_PATH)
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - a fixed list of programs and arguments, no shell
            [program, *command.value[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROGRAM_SECONDS,
            env={"PATH": SEARCH_PATH, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return CommandOutput(done.returncode, done.stdout.decode("utf-8", "replace"))
