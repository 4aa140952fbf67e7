"""Processes on the GPUs that belong to no replica.

They do not make a GPU unhealthy. On a device that runs a replica they are reported; an idle device
with such a process is unavailable until it ends, because its memory and time are not free.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from agents.contract.documents import DesiredReplica
from agents.facts.device_keys import DeviceKey, device_key, whole_gpu_key
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.host.device_users import MONITORS, DeviceUser, program_name
from agents.host.files import HostFiles
from agents.nvml.processes import GpuProcess
from agents.runtime.base import ContainerPhase, ContainerStatus

# Expected daemons, by the first 15 characters of their names: MPS and persistence.
SHARED_DAEMONS = ("nvidia-cuda-mps", "nvidia-persiste", *MONITORS)


@dataclass(frozen=True, slots=True)
class ForeignProcesses:
    """Foreign processes of the node."""

    # Idle devices with a foreign process, and that process.
    unavailable: Mapping[DeviceKey, str] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()


def find_foreign_processes(
    clients: Mapping[str, Iterable[GpuProcess]],
    gpus: Iterable[GpuFacts],
    instances: Iterable[InstanceFacts],
    granted: frozenset[DeviceKey],
    is_ours: Callable[[int], bool | None],
    files: HostFiles,
) -> ForeignProcesses:
    """`clients` by GPU UUID; `granted`: devices of live replicas. `is_ours` returns None for a
    process that this namespace does not show; on a granted device it counts as the replica's."""
    unavailable: dict[DeviceKey, str] = {}
    sentences = []
    instances = list(instances)
    for gpu in gpus:
        for client in clients.get(gpu.uuid, ()):
            key, what = _place(gpu, instances, client)
            ours = is_ours(client.pid)
            if ours or (ours is None and _is_granted(key, gpu, granted)):
                continue
            holder = DeviceUser(client.pid, program_name(files, client.pid))
            if holder.program.startswith(SHARED_DAEMONS):
                continue
            is_used = _is_granted(key, gpu, granted)
            if key is not None:
                unavailable[key] = str(holder)
            why = "a job shares it" if is_used else "it is not allocated until that process ends"
            sentences.append(f"{what} is used by {holder}, which belongs to no job here: {why}.")
    return ForeignProcesses(unavailable, tuple(sentences))


def granted_devices(
    replicas: Iterable[DesiredReplica], containers: Mapping[str, ContainerStatus]
) -> frozenset[DeviceKey]:
    """Devices of replicas that are ready or running; a share counts as the device it is on."""
    live = {key for key, one in containers.items() if one.phase is not ContainerPhase.EXITED}
    devices = [d for replica in replicas if replica.id in live for d in replica.devices]
    return frozenset(map(device_key, devices))


def is_own_process(
    files: HostFiles, containers: Mapping[str, ContainerStatus], pid: int
) -> bool | None:
    """Whether a process belongs to one of the containers, by its control group, or to a replica
    that is a plain process, by its session. None: it is not visible."""
    groups = files.text(f"/proc/{pid}/cgroup")
    if groups is None:
        return None
    names = {s.container for s in containers.values() if s.container}
    if any(re.search(rf"\b{re.escape(name)}[0-9a-f]*\b", groups) for name in names):
        return True
    leaders = {s.leader for s in containers.values() if s.leader}
    return _session(files.text(f"/proc/{pid}/stat") or "") in leaders


def _session(stat: str) -> int:
    """The sixth field of stat, see proc(5); the second may contain blanks and brackets."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[3]) if len(fields) > 3 else 0


def _place(
    gpu: GpuFacts, instances: list[InstanceFacts], client: GpuProcess
) -> tuple[DeviceKey | None, str]:
    """The device that the process uses, and its name. No device if it uses a GPU in MIG mode as a
    whole."""
    if not gpu.mig_current:
        return whole_gpu_key(gpu.uuid), f"GPU {gpu.index}"
    for instance in instances:
        if (instance.gpu_uuid, instance.instance_id) == (gpu.uuid, client.gpu_instance):
            return instance.key, f"{instance.profile} at {instance.start} of GPU {gpu.index}"
    return None, f"GPU {gpu.index}"


def _is_granted(key: DeviceKey | None, gpu: GpuFacts, granted: frozenset[DeviceKey]) -> bool:
    """A process on a whole GPU in MIG mode counts as beside each of its jobs."""
    return key in granted if key is not None else any(g[0] == gpu.uuid for g in granted)
