"""Whether a placement is legal now.

The planner checks it on the ledger of a pass. The committer checks it again, under row locks, on
the rows of the nodes.
"""

from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement
from scheduler.core.model.decisions import DevicePlacement, JobPlacement, ReplicaPlacement
from scheduler.core.model.links import ring_by_nvlink
from scheduler.core.model.message import make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import ClusterSnapshot, Topology, WaitingJob
from scheduler.core.placement.ledger import Ledger, NodeSpace, free_starts
from scheduler.core.placement.node_eligibility import ineligible_message, unavailable_message
from scheduler.core.quota.budgets import remaining_seconds

SINGLE_NODE = frozenset({Topology.SAME_NODE, Topology.NVLINK})


def illegal_reason(
    placement: JobPlacement, job: WaitingJob, snapshot: ClusterSnapshot
) -> Reason | None:
    """The first obstacle to giving the whole gang its devices; None if there is none."""
    return reserve_if_legal(placement, job, Ledger(snapshot))


def reserve_if_legal(placement: JobPlacement, job: WaitingJob, ledger: Ledger) -> Reason | None:
    """As `illegal_reason`, on a ledger. A legal placement is reserved on it; otherwise the ledger
    stays unchanged."""
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
        return _no("fits.ranks")
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
        return _no("fits.node_gone")
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
    if not node.view.available:
        return Reason(ReasonCode.NODE_UNAVAILABLE, unavailable_message(node.view))
    if message := ineligible_message(node.view, job):
        return Reason(ReasonCode.NODE_UNAVAILABLE, message)
    if not node.can_host(job):
        return _no("fits.host", node=node.view.name)
    for device in replica.devices:
        if reason := _device(device, job, node, ledger):
            return reason
        ledger.reserve_device(device, job)
    ledger.reserve_host(node, job.cpu_milli, job.memory_mib, job.disk_mib)
    return None


def _device(
    device: DevicePlacement, job: WaitingJob, node: NodeSpace, ledger: Ledger
) -> Reason | None:
    gpu = ledger.gpus.get(device.gpu)
    if gpu is None or gpu not in node.gpus:
        return _no("fits.gpu_elsewhere")
    if not gpu.view.healthy:
        return _no("fits.out_of_service", gpu=gpu.view.index, node=node.view.name)
    if device.slice:
        view = gpu.slices.get(device.slice)
        same = view is not None and (view.profile, view.start) == (device.profile, device.start)
        if view is None or not same or not view.ready or not gpu.is_idle(device.slice):
            return _no("fits.idle_slice")
        return None
    if device.kind is SliceKind.GPU:
        return None if gpu.is_empty else _no("fits.gpu_taken")
    if device.kind is SliceKind.MPS:
        left = gpu.share_room(job.project, node.view.share_clients)
        if left and left.max_shares(device.threads, device.memory_mib, job.processes):
            return None
        return _no("fits.share_room")
    profile = gpu.board.profile(device.profile)
    place = Placement(device.start, device.size, device.profile)
    if (
        profile is None
        or not gpu.may_carve()
        or place not in free_starts(gpu.board, profile, gpu.layout())
    ):
        return Reason(ReasonCode.FRAGMENTATION, make_message("fits.place_taken"))
    return None


def _no(key: str, **values: object) -> Reason:
    return Reason(ReasonCode.RESOURCES, make_message(key, **values))
