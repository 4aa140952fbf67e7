"""What a runtime gives a replica beside its devices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agents.contract.documents import DesiredReplica


@dataclass(frozen=True, slots=True)
class VolumeDriver:
    """How the engine makes a volume that is not there yet."""

    name: str
    options: dict[str, str]
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """A folder of the host in a container, without file systems that are mounted inside it; or,
    with a driver, the engine's volume of the name `source`."""

    source: str
    target: str
    read_only: bool
    driver: VolumeDriver | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """Additional environment and mounts of one replica, and the CPUs and memory nodes of the host
    that it is bound to, as the kernel lists them (empty: any)."""

    env: dict[str, str] = field(default_factory=dict)
    # Folders of the host, as (source, target in the container).
    mounts: tuple[tuple[str, str], ...] = ()
    # The same for folders and files that the replica cannot write to.
    read_only_mounts: tuple[tuple[str, str], ...] = ()
    # Words before its command: a program that changes something and then becomes the command.
    wrapper: tuple[str, ...] = ()
    cpus: str = ""
    memory_nodes: str = ""
    volumes: tuple[VolumeMount, ...] = ()
    # Device nodes of the host, beside those of its GPUs.
    devices: tuple[str, ...] = ()
    # It may lock all of its memory, as RDMA does with what it sends from.
    locks_memory: bool = False


NO_GRANT = Grant()
GrantProvider = Callable[[DesiredReplica, Sequence[str]], Grant]


def no_grant(replica: DesiredReplica, devices: Sequence[str]) -> Grant:
    """The provider for a node without MPS shares."""
    return NO_GRANT
