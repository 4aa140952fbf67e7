"""What is combined: the devices, processes, launcher and backend of a gang, for any asker."""

from dataclasses import dataclass

from agents.combinations.commands import NO_TRAITS, CommandTraits, command_traits
from agents.contract.documents import CollectiveBackend, DesiredReplica, SliceKind
from agents.contract.launcher_names import LauncherName


@dataclass(frozen=True, slots=True)
class GangShape:
    """A gang, as far as the asker knows it."""

    kinds: frozenset[SliceKind] = frozenset()
    """Of its devices."""
    gpus: int = 0
    """Whole GPUs of a replica."""
    threads: int = 0
    """Percent of the SMs of a replica's share."""
    replicas: int = 1
    processes: int = 1
    """Of a replica."""
    launcher: LauncherName = LauncherName.NONE
    backend: CollectiveBackend = CollectiveBackend.AUTO
    command: CommandTraits = NO_TRAITS
    single_node: bool = False
    """All replicas have to be on one node."""
    nvlink: bool = False
    """It asks for GPUs that NVLink joins."""
    has_neighbours: bool = False
    """Other users have shares of its GPUs."""

    @property
    def ranks(self) -> int:
        """Processes of the whole gang."""
        return self.replicas * self.processes

    @property
    def parts(self) -> list[SliceKind]:
        """Kinds of its devices that are parts of a GPU."""
        return sorted(kind for kind in self.kinds if kind is not SliceKind.GPU)


def replica_shape(replica: DesiredReplica) -> GangShape:
    """The gang of this replica, as its node sees it: with the devices of this one."""
    kinds = [device.kind for device in replica.devices]
    return GangShape(
        kinds=frozenset(kinds),
        gpus=kinds.count(SliceKind.GPU),
        threads=sum(device.threads for device in replica.devices),
        replicas=replica.world,
        processes=replica.processes,
        launcher=replica.launcher,
        backend=replica.backend,
        command=command_traits(replica.command),
    )
