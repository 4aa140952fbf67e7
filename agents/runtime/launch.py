"""The environment and the command of a replica: its identity, rendezvous, devices and launcher.

The agent's variables are set last, so that neither an image nor a user can change them.
"""

from collections.abc import Sequence

from agents.contract.collectives import resolved_backend
from agents.contract.documents import DesiredReplica, Rendezvous
from agents.launchers.registry import LAUNCHERS
from agents.workspace.environment import folder_variables, usual_variables
from agents.workspace.folders import ReplicaFolders

BACKEND = "TESSERA_BACKEND"
# The UUIDs of the replica's devices, in every runtime; empty without devices. NVIDIA's own variable
# has them only where its toolkit reads them (see injection.py).
DEVICES = "TESSERA_DEVICES"


def replica_environment(
    replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous, folders: ReplicaFolders
) -> dict[str, str]:
    """The usual variables, overwritten by the user's, overwritten by ours. `devices`: the driver's
    UUIDs. `folders`: as the program sees them."""
    env = usual_variables(replica, folders) | replica.env
    env |= _tessera(replica, rendezvous) | {DEVICES: ",".join(devices)}
    env |= folder_variables(replica, folders)
    env |= {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "MASTER_ADDR": rendezvous.address,
        "MASTER_PORT": str(rendezvous.port),
        "NODE_RANK": str(replica.rank),
        "NNODES": str(replica.world),
        BACKEND: _backend(replica),
    }
    return env | LAUNCHERS[replica.launcher].environment(replica, rendezvous)


def launch_command(replica: DesiredReplica) -> list[str]:
    """The user's command, under the requested launcher."""
    return LAUNCHERS[replica.launcher].command(replica)


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
