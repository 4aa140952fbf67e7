"""The start of a replica: its environment, its command, and the files that it gets for these.

The agent's variables are set last, so that neither an image nor a user can change them. Pure.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.contract.collectives import resolved_backend
from agents.contract.documents import DesiredReplica, Rendezvous
from agents.launchers.base import Launch
from agents.launchers.registry import LAUNCHERS
from agents.profiler.start import profiler_files, profiler_variables
from agents.workspace.environment import folder_variables, usual_variables
from agents.workspace.folders import IN_CONTAINER, ReplicaFolders

BACKEND = "TESSERA_BACKEND"
# The UUIDs of the replica's devices, in every runtime; empty without devices. NVIDIA's own variable
# has them only where its toolkit reads them (see agents/runtime/injection.py).
DEVICES = "TESSERA_DEVICES"
# Where the launcher's files are, if it has any.
LAUNCHER_FOLDER = "TESSERA_LAUNCHER_DIR"


def replica_environment(
    replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous, folders: ReplicaFolders
) -> dict[str, str]:
    """The usual variables, overwritten by the user's, overwritten by ours. `devices`: the driver's
    UUIDs. `folders`: as the program sees them."""
    env = usual_variables(replica, folders) | replica.env
    env |= _tessera(replica, rendezvous) | {DEVICES: ",".join(devices)}
    env |= folder_variables(replica, folders) | profiler_variables(replica, folders.launcher)
    env |= {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "MASTER_ADDR": rendezvous.address,
        "MASTER_PORT": str(rendezvous.port),
        "NODE_RANK": str(replica.rank),
        "NNODES": str(replica.world),
        BACKEND: _backend(replica),
    }
    if launch_files(replica, rendezvous, folders):
        env |= {LAUNCHER_FOLDER: str(folders.launcher)}
    return env | LAUNCHERS[replica.launcher].environment(_launch(replica, rendezvous, folders))


def launch_command(
    replica: DesiredReplica, rendezvous: Rendezvous, folders: ReplicaFolders
) -> list[str]:
    """The user's command, under the requested launcher."""
    return LAUNCHERS[replica.launcher].command(_launch(replica, rendezvous, folders))


def launch_files(
    replica: DesiredReplica, rendezvous: Rendezvous, folders: ReplicaFolders
) -> Mapping[str, str]:
    """The texts of the launcher's and the profiler's files in `folders.launcher`, by their names;
    none for most."""
    own = LAUNCHERS[replica.launcher].files(_launch(replica, rendezvous, folders))
    return {**own, **profiler_files(replica)}


def home_in_container(replica: DesiredReplica) -> Path:
    """What /etc/passwd of its container names as the home of its user."""
    return Path(LAUNCHERS[replica.launcher].home(replica) or IN_CONTAINER.scratch)


def _launch(replica: DesiredReplica, meeting: Rendezvous, folders: ReplicaFolders) -> Launch:
    return Launch(replica, meeting, folders.launcher)


def _backend(replica: DesiredReplica) -> str:
    """The argument of `init_process_group(backend=...)` for this gang's devices."""
    kinds = [device.kind for device in replica.devices]
    return str(resolved_backend(replica.backend, kinds, replica.world * replica.processes))


def _tessera(replica: DesiredReplica, meeting: Rendezvous) -> dict[str, str]:
    return {
        "TESSERA_JOB": replica.job,
        "TESSERA_NAME": replica.name,
        "TESSERA_ATTEMPT": str(replica.attempt),
        "TESSERA_RANK": str(replica.rank),
        "TESSERA_WORLD_SIZE": str(replica.world),
        "TESSERA_MASTER_ADDR": meeting.address,
        "TESSERA_MASTER_PORT": str(meeting.port),
        "TESSERA_PEERS": ",".join(meeting.peers),
    }
