"""Whether a placement is legal now.

The planner checks it on the ledger of a pass. The committer checks it again, under row locks, on a
ledger of the rows of the nodes.
"""

from agents.contract.documents import SliceKind
from scheduler.core.model.decisions import JobPlacement, ReplicaPlacement
from scheduler.core.model.links import ring_by_nvlink
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import Topology, WaitingJob
from scheduler.core.placement.ledger import DeviceConflict, Ledger
from scheduler.core.placement.node_eligibility import exclusion_message
from scheduler.core.quota.budgets import remaining_seconds

SINGLE_NODE = frozenset({Topology.SAME_NODE, Topology.NVLINK})
CONFLICTS = {
    DeviceConflict.SLICE: Reason(ReasonCode.RESOURCES, make_message("fits.idle_slice")),
    DeviceConflict.GPU: Reason(ReasonCode.RESOURCES, make_message("fits.gpu_taken")),
    DeviceConflict.SHARE: Reason(ReasonCode.RESOURCES, make_message("fits.share_room")),
    DeviceConflict.PLACE: Reason(ReasonCode.FRAGMENTATION, make_message("fits.place_taken")),
}


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
    if sorted(r.rank for r in place.replicas) != list(range(job.replicas)):
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
    if len({ledger.nodes[node].view.fabric for node in nodes}) > 1:
        return Reason(ReasonCode.TOPOLOGY, make_message("fits.network"))
    if job.topology is Topology.NVLINK and not _nvlink_joins(place, ledger):
        return Reason(ReasonCode.TOPOLOGY, make_message("fits.nvlink"))
    return None


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
        return Reason(ReasonCode.NODE_UNAVAILABLE, exclusion)
    if not node.can_host(job):
        message = make_message("fits.host", node=node.view.name)
        return Reason(ReasonCode.RESOURCES, message)
    for device, gpu in zip(replica.devices, gpus, strict=True):
        if gpu is None or gpu not in node.gpus:
            return Reason(ReasonCode.RESOURCES, make_message("fits.gpu_elsewhere"))
        if not gpu.view.healthy:
            message = make_message("fits.out_of_service", gpu=gpu.view.index, node=node.view.name)
            return Reason(ReasonCode.RESOURCES, message)
        if conflict := gpu.conflict(device, job, node.view.share_clients):
            return CONFLICTS[conflict]
        ledger.reserve_device(device, job)
    ledger.reserve_host(node, job.cpu_milli, job.memory_mib, job.disk_mib)
    return None
