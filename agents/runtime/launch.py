"""The environment and the command of a replica: its identity, rendezvous, devices and launcher.

The agent's variables are set last, so that neither an image nor a user can change them. If torchrun
starts the ranks, it sets RANK and WORLD_SIZE.
"""

from collections.abc import Sequence

from agents.contract.collectives import resolved_backend
from agents.contract.documents import DesiredReplica, Rendezvous

TORCHRUN = "torchrun"
OUTPUT, BACKEND = "TESSERA_OUTPUT_DIR", "TESSERA_BACKEND"


def replica_environment(
    replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous, output: str
) -> dict[str, str]:
    """The user's variables, overwritten by ours. `devices`: the driver's UUIDs."""
    env = dict(replica.env)
    env |= _tessera(replica, rendezvous) | {OUTPUT: output}
    env |= {
        "NVIDIA_VISIBLE_DEVICES": ",".join(devices) or "void",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "MASTER_ADDR": rendezvous.address,
        "MASTER_PORT": str(rendezvous.port),
        "NODE_RANK": str(replica.rank),
        "NNODES": str(replica.world),
        BACKEND: _backend(replica),
    }
    return env | (
        _torchrun(replica, rendezvous) if replica.launcher == TORCHRUN else _plain(replica)
    )


def launch_command(replica: DesiredReplica) -> list[str]:
    """The user's command, under the requested launcher."""
    if replica.launcher != TORCHRUN or not replica.command:
        return list(replica.command)
    # All options come by PET_*. torchrun starts Python itself, so the interpreter is dropped.
    words = list(replica.command)
    is_python = words[0].rsplit("/", 1)[-1].startswith("python")
    if is_python:
        # torchrun would read the interpreter's options, such as -u, as its own: then it starts
        # the full command.
        has_options = len(words) > 1 and words[1].startswith("-") and words[1] != "-m"
        program = ["--no-python", *words] if has_options else words[1:]
        return [words[0], "-m", "torch.distributed.run", *program]
    return ["torchrun", "--no-python", *words]


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


def _plain(replica: DesiredReplica) -> dict[str, str]:
    """One process per replica: its rank in the gang is its rank in the world."""
    return {
        "RANK": str(replica.rank),
        "WORLD_SIZE": str(replica.world),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
    }


def _torchrun(replica: DesiredReplica, meeting: Rendezvous) -> dict[str, str]:
    """torchrun reads each of its flags from PET_<FLAG>."""
    return {
        "PET_NNODES": str(replica.world),
        "PET_NPROC_PER_NODE": str(replica.processes),
        "PET_NODE_RANK": str(replica.rank),
        "PET_MASTER_ADDR": meeting.address,
        "PET_MASTER_PORT": str(meeting.port),
        "PET_RDZV_ID": f"{replica.job}-{replica.attempt}",
        "PET_MAX_RESTARTS": "0",
    }
