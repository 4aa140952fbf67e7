"""The folders of a share's daemon, and what its clients get. Pure.

Both depend on the share alone, so a restarted agent finds what an earlier one started."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.contract.documents import DesiredReplica, Device, SliceKind
from agents.facts.device_keys import DeviceKey, device_key
from agents.runtime.grants import NO_GRANT, Grant

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps it


@dataclass(frozen=True, slots=True)
class DaemonFolders:
    """The folders of one daemon below `root`, with names short enough for sockets."""

    root: Path
    key: str

    @property
    def folder(self) -> Path:
        return self.root / self.key

    @property
    def pipe(self) -> Path:
        return self.folder / "p"

    @property
    def log(self) -> Path:
        return self.folder / "l"

    @property
    def shm(self) -> Path:
        """Its shared memory: a folder in the host's /dev/shm, so it needs no mount of its own."""
        return SHARED_MEMORY / f"tessera-mps-{self.key}"


def daemon_folders(root: Path, project: str, place: DeviceKey) -> DaemonFolders:
    """One daemon per project and device. `root` is part of the key, to keep the agents of one
    machine apart."""
    name = "\0".join(str(part) for part in (root, project, *place))
    return DaemonFolders(root, hashlib.sha256(name.encode()).hexdigest()[:12])


def share_device(replica: DesiredReplica) -> Device | None:
    """The replica's share or None; a replica has at most one (see `refusals.py`)."""
    return next((d for d in replica.devices if d.kind is SliceKind.MPS), None)


def client_limits(replica: DesiredReplica, share: Device) -> tuple[int, int]:
    """Percent of the SMs, and MiB, of each process: MPS limits clients, not replicas."""
    count = max(1, replica.processes)
    return max(1, share.threads // count), max(1, share.memory_mib // count)


def share_grant(
    root: Path, replica: DesiredReplica, devices: Sequence[str], *, in_containers: bool
) -> Grant:
    """What a replica with a share gets; NO_GRANT for others. `devices`: the driver's UUIDs.

    The pipe directory has the same path on both sides, in case MPS passes paths. A client's own
    limits can only tighten the daemon's (MPS guide)."""
    share = share_device(replica)
    if share is None:
        return NO_GRANT
    home = daemon_folders(root, replica.project, device_key(share))
    threads, memory_mib = client_limits(replica, share)
    env = {
        "CUDA_MPS_PIPE_DIRECTORY": str(home.pipe),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(threads),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={memory_mib}M",
        "CUDA_VISIBLE_DEVICES": ",".join(devices),
    }
    shm = (str(home.shm), str(SHARED_MEMORY))
    return Grant(env, ((str(home.pipe), str(home.pipe)), shm) if in_containers else ())
