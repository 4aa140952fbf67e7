"""The replicas that a GPU error ends. An error on one slice leaves the other slices alone. Pure."""

from collections.abc import Container, Iterable, Mapping

from agents.contract.documents import DesiredReplica, DesiredReplicaState, Device, SliceKind
from agents.facts.failures import ReplicaFailure
from agents.facts.gpu_health import EventKind
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.health.verdict import GpuEvent
from agents.health.xids import xid_by_number
from agents.runtime.base import ContainerPhase, ContainerStatus

CODE = "gpu_error"


def failures_of_event(
    event: GpuEvent,
    replicas: Iterable[DesiredReplica],
    containers: Mapping[str, ContainerStatus],
    gpus: Iterable[GpuFacts],
    instances: Iterable[InstanceFacts],
) -> dict[str, ReplicaFailure]:
    """Failures of the replicas that run on the device that the event names.

    On a MIG instance these are all shares of it, because one error ends everything in a context. A
    contained error on a GPU in MIG mode that names no instance fails no replica: the program that
    it hit is unknown, and CUDA reports the error to it.
    """
    xid = xid_by_number(event.xid)
    gpu = next((gpu for gpu in gpus if gpu.uuid == event.gpu_uuid), None)
    if event.kind is not EventKind.XID or not xid.ends_work or gpu is None:
        return {}
    if event.gpu_instance is None and gpu.mig_current and not xid.faults_gpu:
        return {}
    at = [i for i in instances if _is_at(i, event)]
    running = [
        r
        for r in replicas
        if r.id in containers and containers[r.id].phase is ContainerPhase.RUNNING
    ]
    where = "" if event.gpu_instance is None else f", GPU instance {event.gpu_instance}"
    failure = ReplicaFailure(CODE, f"{xid.sentence} (XID {xid.number} on GPU {gpu.index}{where})")
    return {
        replica.id: failure
        for replica in running
        if any(_is_on(device, event, at) for device in replica.devices)
    }


def failures_of_faulted_gpus(
    replicas: Iterable[DesiredReplica],
    containers: Mapping[str, ContainerStatus],
    gpus: Iterable[GpuFacts],
    lost: Container[str],
) -> dict[str, ReplicaFailure]:
    """Failures of replicas on a lost GPU, and of those that have not started yet on a GPU that
    takes no new work. The portal can place their jobs elsewhere."""
    faulted = {gpu.uuid: gpu for gpu in gpus if not gpu.healthy}
    found = {}
    for replica in replicas:
        phase = containers[replica.id].phase if replica.id in containers else None
        begun = phase is ContainerPhase.RUNNING
        if phase is ContainerPhase.EXITED or (
            replica.wish is DesiredReplicaState.STOP and not begun
        ):
            continue
        for device in replica.devices:
            gpu = faulted.get(device.gpu_uuid)
            if gpu is not None and (gpu.uuid in lost or not begun):
                found[replica.id] = ReplicaFailure(CODE, f"GPU {gpu.index}: {gpu.health_reason}")
    return found


def _is_at(instance: InstanceFacts, event: GpuEvent) -> bool:
    """The agent creates one compute instance over each GPU instance, so its id adds nothing."""
    device = (instance.gpu_uuid, instance.instance_id)
    return device == (event.gpu_uuid, event.gpu_instance)


def _is_on(device: Device, event: GpuEvent, at: list[InstanceFacts]) -> bool:
    if device.gpu_uuid != event.gpu_uuid:
        return False
    if event.gpu_instance is None or device.kind is SliceKind.GPU:
        return True
    place = (device.profile, device.start, device.size)
    return any(place == (i.profile, i.start, i.size) for i in at)
