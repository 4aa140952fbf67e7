"""Requests and waiting jobs as gangs whose combination is checked."""

from agents.combinations.commands import NO_TRAITS, CommandTraits
from agents.combinations.shape import GangShape
from agents.contract.documents import CollectiveBackend, SliceKind
from agents.contract.launcher_names import LauncherName
from scheduler.core.model.snapshot import SINGLE_NODE, DeviceRequest, Topology, WaitingJob


def requested_shape(
    device: DeviceRequest,
    *,
    replicas: int,
    processes: int,
    launcher: LauncherName,
    backend: CollectiveBackend,
    topology: Topology,
    command: CommandTraits = NO_TRAITS,
) -> GangShape:
    return GangShape(
        kinds=_kinds(device),
        gpus=device.gpus,
        threads=device.mps_threads,
        replicas=replicas,
        processes=processes,
        launcher=launcher,
        backend=backend,
        command=command,
        single_node=topology in SINGLE_NODE,
        nvlink=topology is Topology.NVLINK,
    )


def job_shape(job: WaitingJob) -> GangShape:
    return requested_shape(
        job.device,
        replicas=job.replicas,
        processes=job.processes,
        launcher=job.launcher,
        backend=job.backend,
        topology=job.topology,
        command=job.command,
    )


def _kinds(device: DeviceRequest) -> frozenset[SliceKind]:
    """A request for an amount of memory counts as a slice, because it may become one."""
    requested = {
        SliceKind.GPU: device.gpus,
        SliceKind.MIG: device.mig or device.memory_mib,
        SliceKind.MPS: device.mps_threads,
    }
    return frozenset(kind for kind, amount in requested.items() if amount)
