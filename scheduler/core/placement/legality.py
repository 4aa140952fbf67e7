"""Whether a placement is legal now.

The planner checks it on the ledger of a pass. The committer checks it again, under row locks, on a
ledger of the rows of the nodes.
"""

from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement
from scheduler.core.model.decisions import DevicePlacement, JobPlacement, ReplicaPlacement
from scheduler.core.model.links import ring_by_nvlink
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import SINGLE_NODE, Topology, WaitingJob
from scheduler.core.placement.ledger import GpuSpace, Ledger
from scheduler.core.placement.node_eligibility import (
    exclusion_code,
    exclusion_message,
    network_of,
)
from scheduler.core.quota.budgets import remaining_seconds

SLICE_GONE = Reason(ReasonCode.RESOURCES, make_message("fits.idle_slice"))
GPU_TAKEN = Reason(ReasonCode.RESOURCES, make_message("fits.gpu_taken"))
NO_SHARE_ROOM = Reason(ReasonCode.RESOURCES, make_message("fits.share_room"))
PLACE_TAKEN = Reason(ReasonCode.FRAGMENTATION, make_message("fits.place_taken"))


def reserve_if_legal(placement: JobPlacement, job: WaitingJob, ledger: Ledger) -> Reason | None:
    """The first obstacle to giving the whole gang its devices, or None: then they are reserved on
    the ledger, which otherwise stays unchanged."""
    mark = ledger.mark()
    reason = _check(placement, job, ledger)
    if reason is not None:
        ledger.rollback(mark)
    return reason


def quota_reason(job: WaitingJob, units: int, ledger: Ledger, model: str = "") -> Reason | None:
    """Why the job's owners may not use `units` more of the board with the key `model`; or None."""
    return ledger.accounts.limit_reason(job, units, model)


def _check(place: JobPlacement, job: WaitingJob, ledger: Ledger) -> Reason | None:
    units = sum(device.units for replica in place.replicas for device in replica.devices)
    size = len(place.replicas)
    is_allowed = size in (job.sizes or (job.replicas,))
    if not is_allowed or sorted(r.rank for r in place.replicas) != list(range(size)):
        return Reason(ReasonCode.RESOURCES, make_message("fits.ranks"))
    model = _model(place, ledger)
    if reason := quota_reason(job, units, ledger, model) or _together(place, job, ledger):
        return reason
    for replica in place.replicas:
        if reason := _replica(replica, job, ledger):
            return reason
    ledger.charge(job.project, job.user, units, model, remaining_seconds(job))
    return None


def _model(place: JobPlacement, ledger: Ledger) -> str:
    """The key of the gang's board: all its devices are on boards of one kind."""
    gpus = (ledger.gpus.get(d.gpu) for replica in place.replicas for d in replica.devices)
    return next((gpu.board.key for gpu in gpus if gpu), "")


def _together(place: JobPlacement, job: WaitingJob, ledger: Ledger) -> Reason | None:
    """A gang stays inside one network, and on one node if it requests that."""
    nodes = {replica.node for replica in place.replicas}
    if not nodes <= ledger.nodes.keys():
        return Reason(ReasonCode.RESOURCES, make_message("fits.node_gone"))
    if len(nodes) > 1 and job.topology in SINGLE_NODE:
        return Reason(ReasonCode.TOPOLOGY, make_message("fits.one_node"))
    if len({network_of(ledger.nodes[node].view, job) for node in nodes}) > 1:
        return Reason(ReasonCode.TOPOLOGY, make_message("fits.network"))
    too_large = len(place.replicas) > ledger.snapshot.largest_networked_gang
    if too_large and needs_network(place, ledger):
        return Reason(ReasonCode.TOPOLOGY, make_message("fits.no_addresses"))
    if job.topology is Topology.NVLINK and not _nvlink_joins(place, ledger):
        return Reason(ReasonCode.TOPOLOGY, make_message("fits.nvlink"))
    return None


def needs_network(place: JobPlacement, ledger: Ledger) -> bool:
    """Whether the gang needs a network of its own."""
    nodes = {replica.node for replica in place.replicas}
    return len(nodes) > 1 and any(ledger.nodes[node].view.overlay for node in nodes)


def _nvlink_joins(place: JobPlacement, ledger: Ledger) -> bool:
    """Only whole GPUs count: slices do not use NVLink."""
    by_node: dict[str, list[int]] = {}
    for replica in place.replicas:
        for device in replica.devices:
            gpu = ledger.gpus.get(device.gpu)
            if gpu is not None and device.kind is SliceKind.GPU:
                by_node.setdefault(replica.node, []).append(gpu.view.index)
    return all(
        ring_by_nvlink(ledger.nodes[n].view.links, tuple(sorted(gpus)))
        for n, gpus in by_node.items()
    )


def _replica(replica: ReplicaPlacement, job: WaitingJob, ledger: Ledger) -> Reason | None:
    node = ledger.nodes[replica.node]
    gpus = [ledger.gpus.get(device.gpu) for device in replica.devices]
    exclusion = exclusion_message(node.view, job)
    if exclusion is not None:
        return Reason(exclusion_code(exclusion), exclusion)
    if not node.can_host(job):
        message = make_message("fits.host", node=node.view.name)
        return Reason(ReasonCode.RESOURCES, message)
    for device, gpu in zip(replica.devices, gpus, strict=True):
        if gpu is None or gpu not in node.gpus:
            return Reason(ReasonCode.RESOURCES, make_message("fits.gpu_elsewhere"))
        if not gpu.view.healthy:
            message = make_message("fits.out_of_service", gpu=gpu.view.index, node=node.view.name)
            return Reason(ReasonCode.RESOURCES, message)
        if reason := _conflict(device, gpu, job, node.view.share_clients):
            return reason
        ledger.reserve_device(device, job)
    ledger.reserve_host(node, job.cpu_milli, job.memory_mib, job.disk_mib)
    return None


def _conflict(
    device: DevicePlacement, gpu: GpuSpace, job: WaitingJob, clients: int
) -> Reason | None:
    """What keeps the GPU from giving the device to a replica of the job. `clients`: how many MPS
    clients its node allows."""
    if device.slice:
        view = gpu.slices.get(device.slice)
        same = view is not None and (view.profile, view.start) == (device.profile, device.start)
        is_free = view is not None and same and view.ready and gpu.is_idle(device.slice)
        return None if is_free else SLICE_GONE
    if device.kind is SliceKind.GPU:
        return None if gpu.is_empty else GPU_TAKEN
    if device.kind is SliceKind.MPS:
        room = gpu.share_room(job.project, clients)
        fits = room and room.max_shares(device.threads, device.memory_mib, job.processes)
        return None if fits else NO_SHARE_ROOM
    place = Placement(device.start, device.size, device.profile)
    is_free = gpu.may_carve() and place in gpu.free_starts(device.profile)
    return None if is_free else PLACE_TAKEN
