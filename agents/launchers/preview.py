"""What each replica of a gang would be started with, at an assumed or a given place. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agents.contract.documents import DesiredReplica, Rendezvous, SliceKind
from agents.launchers.launch import launch_command, launch_files, replica_environment
from agents.workspace.folders import IN_CONTAINER

ASSUMED_PORT = 29_500


@dataclass(frozen=True, slots=True)
class ReplicaStart:
    """The start of one replica in a container."""

    rank: int
    environment: Mapping[str, str]
    command: Sequence[str]
    files: Mapping[str, str]
    """Texts by path in the container."""


def gang_starts(
    replica: DesiredReplica, rendezvous: Rendezvous, devices: Sequence[Sequence[str]]
) -> list[ReplicaStart]:
    """In rank order. `replica`: any of the gang. `devices`: the UUIDs of each rank, all or only the
    first ones."""
    return [
        _start(replace(replica, rank=rank), rendezvous, own) for rank, own in enumerate(devices)
    ]


def assumed_rendezvous(world: int) -> Rendezvous:
    """Where the gang could meet: each replica has a name of its own."""
    peers = tuple(f"replica-{rank}" for rank in range(world))
    return Rendezvous(peers[0], ASSUMED_PORT, peers)


def assumed_devices(replica: DesiredReplica, max_ranks: int | None = None) -> list[list[str]]:
    """UUIDs that tell rank and number, of the first ranks or of all."""
    prefixes = ["MIG" if each.kind is SliceKind.MIG else "GPU" for each in replica.devices]
    return [
        [f"{prefix}-{rank}-{number}" for number, prefix in enumerate(prefixes)]
        for rank in range(replica.world)[:max_ranks]
    ]


def _start(replica: DesiredReplica, rendezvous: Rendezvous, devices: Sequence[str]) -> ReplicaStart:
    files = launch_files(replica, rendezvous, IN_CONTAINER)
    return ReplicaStart(
        rank=replica.rank,
        environment=replica_environment(replica, devices, rendezvous, IN_CONTAINER),
        command=launch_command(replica, rendezvous, IN_CONTAINER),
        files={str(IN_CONTAINER.launcher / name): text for name, text in files.items()},
    )
