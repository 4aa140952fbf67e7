"""What can never run on the cluster as it is: said at submit, not after hours in the queue."""

from collections import Counter
from typing import Any

from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from agents.contract.units import as_gpus
from scheduler.core.devices.options import DeviceOption, device_options, gpu_board
from scheduler.core.model.message import Message, make_message, owner_label
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import ClusterSnapshot, NodeView, QuotaView, WaitingJob
from scheduler.core.placement.legality import SINGLE_NODE
from scheduler.core.placement.mps_shares import ShareRoom
from scheduler.core.quota.ceilings import quota_too_small
from scheduler.core.request.quantities import write_memory

# Nodes that are alike: one of them, and how many there are.
Nodes = list[tuple[NodeView, int]]


class ClusterCapacity:
    """What the cluster could do if it were empty. Equal nodes are looked at once."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.quotas = snapshot.quotas
        alike: dict[object, list[NodeView]] = {}
        for node in snapshot.nodes:
            alike.setdefault(_kind(node), []).append(node)
        self.nodes = [(nodes[0], len(nodes)) for nodes in alike.values()]
        known = {(g.board, g.profiles): g for node, _ in self.nodes for g in node.gpus}
        found = {board.key: board for board in map(gpu_board, known.values())}
        self.boards = [found[key] for key in sorted(found)]

    def device_reason(self, job: WaitingJob) -> Reason | None:
        """Why the job can never run here, or None. Nodes that are away now still count; a cluster
        without any GPU yet refuses nothing, because nodes may come."""
        if not self.boards:
            return None
        if job.device.mps_threads and not any(node.share_clients for node, _ in self.nodes):
            return _never(make_message("never.no_shares"))
        ways = device_options(job.device, self.boards)
        if not ways:
            return _no_such_device(job, self.boards)
        reasons = [reason for want in ways if (reason := _too_large(job, want, self.nodes))]
        if len(reasons) == len(ways):
            # The board that comes nearest says most about what there is.
            return max(reasons, key=lambda reason: reason.evidence.get("largest", 0))
        return None

    def quota_reason(self, job: WaitingJob) -> Reason | None:
        """Whether its owner's quota could never pay for it."""
        return _over_quota(job, device_options(job.device, self.boards), self.quotas)

    def infeasible_reason(self, job: WaitingJob) -> Reason | None:
        """Either of them."""
        return self.device_reason(job) or self.quota_reason(job)


def infeasible_reason(job: WaitingJob, snapshot: ClusterSnapshot) -> Reason | None:
    """Why the job can never run here, for want of devices or of quota; or None."""
    return ClusterCapacity(snapshot).infeasible_reason(job)


def _kind(node: NodeView) -> object:
    gpus = Counter((gpu.board, gpu.profiles) for gpu in node.gpus)
    room = node.cpu_total_milli, node.memory_total_mib, node.disk_total_mib, node.share_clients
    return node.fabric, room, frozenset(gpus.items())


def _no_such_device(job: WaitingJob, boards: list[Board]) -> Reason:
    models = sorted({board.key for board in boards})
    device = job.device
    if device.mig:
        names = sorted({p.name for b in boards for p in b.profiles if not p.has_media_extensions})
        key = "never.profile" if names else "never.no_mig"
        return _never(make_message(key, profile=device.mig, profiles=names), models)
    if device.memory_mib or device.mps_memory_mib:
        largest = max(board.memory_mib for board in boards)
        asked_mib = device.memory_mib or device.mps_memory_mib
        return _never(make_message("never.memory", asked=asked_mib, largest=largest), models)
    asked: Message | str = device.models[0] if device.models else ""
    for other in device.models[1:]:
        asked = make_message("clause.or", first=asked, then=other)
    return _never(make_message("never.model", asked=asked, boards=models), models)


def _too_large(job: WaitingJob, want: DeviceOption, nodes: Nodes) -> Reason | None:
    """Whether the gang is larger than the cluster, or one replica larger than any node."""
    fitting = [(node.fabric, _replicas_on(node, job, want), many) for node, many in nodes]
    most = max((replicas for _, replicas, _ in fitting), default=0)
    if most == 0:
        return _no_node(job, want, [node for node, _ in nodes])
    needed = job.replicas
    if job.topology in SINGLE_NODE and needed > most:
        said = make_message("never.one_node", needed=needed, most=most)
        return _never(said, needed=needed, largest=most)
    by_fabric: Counter[str] = Counter()
    for fabric, replicas, many in fitting:
        by_fabric[fabric] += replicas * many
    if needed > (most := max(by_fabric.values())):
        key = "never.network" if len(by_fabric) > 1 else "never.cluster"
        return _never(make_message(key, needed=needed, most=most), needed=needed, largest=most)
    return None


def _no_node(job: WaitingJob, want: DeviceOption, nodes: list[NodeView]) -> Reason:
    gpus = max(_gpus_on(node, want.board) for node in nodes)
    if gpus < want.count:
        said = make_message("never.gpus", needed=want.count, board=want.board, most=gpus)
        return _never(said, needed=want.count, largest=gpus)
    holders = [n for n in nodes if _gpus_on(n, want.board) >= want.count]
    if want.kind is SliceKind.MPS and job.processes > (
        most := max(n.share_clients for n in holders)
    ):
        said = make_message("never.processes", needed=job.processes, most=most, board=want.board)
        return _never(said, needed=job.processes, largest=most)
    if hosts := [n for n in holders if _by_cpu_and_memory(n, job)]:
        # A node that does not say how much disk it has would do: see `_by_disk`.
        disk = max(n.disk_total_mib or 0 for n in hosts)
        asked = {"disk": write_memory(job.disk_mib), "most": write_memory(disk)}
        return _never(make_message("never.disk", **asked), disk_mib=disk)
    cpu = max(n.cpu_total_milli for n in holders)
    memory = max(n.memory_total_mib for n in holders)
    host = {"cpu": job.cpu_milli, "memory": job.memory_mib}
    said = make_message("never.host", **host, most_cpu=cpu, most_memory=memory)
    return _never(said, cpu_milli=cpu, memory_mib=memory)


def _replicas_on(node: NodeView, job: WaitingJob, want: DeviceOption) -> int:
    """How many replicas an empty node could take."""
    boards = [board for gpu in node.gpus if (board := gpu_board(gpu)).key == want.board]
    by_gpu = sum(_per_gpu(node, board, job, want) for board in boards) // want.count
    return min(by_gpu, _by_cpu_and_memory(node, job), _by_disk(node, job, by_gpu))


def _by_cpu_and_memory(node: NodeView, job: WaitingJob) -> int:
    by_cpu = node.cpu_total_milli // max(1, job.cpu_milli)
    return min(by_cpu, node.memory_total_mib // max(1, job.memory_mib))


def _by_disk(node: NodeView, job: WaitingJob, most: int) -> int:
    """A node that does not say how much disk it has may have enough for `most`: who asks for disk
    waits until it says."""
    if not job.disk_mib or node.disk_total_mib is None:
        return most
    return node.disk_total_mib // job.disk_mib


def _per_gpu(node: NodeView, board: Board, job: WaitingJob, want: DeviceOption) -> int:
    if want.kind is SliceKind.GPU:
        return 1
    if want.kind is SliceKind.MPS:
        empty = ShareRoom(100, board.memory_mib, node.share_clients)
        return empty.max_shares(want.threads, want.memory_mib, job.processes)
    profile = board.profile(want.profile)
    return profile.max_instances if profile else 0


def _gpus_on(node: NodeView, board: str) -> int:
    return sum(1 for gpu in node.gpus if gpu_board(gpu).key == board)


def _over_quota(
    job: WaitingJob, ways: list[DeviceOption], quotas: tuple[QuotaView, ...]
) -> Reason | None:
    """Whether no way could ever be paid, not even with all that others would lend."""
    found = None
    for want in ways:
        needed = want.replica_units * job.replicas
        short = quota_too_small(job, needed, want.board, quotas)
        if short is None:
            return None
        found = found or (needed, *short)
    if found is None:
        return None
    needed, quota, most = found
    values: dict[str, Any] = {
        "needed": as_gpus(needed),
        "whose": owner_label(quota.project, quota.user),
        "most": as_gpus(most, round_up=False),
    }
    said = make_message("never.quota", **values)
    if quota.model:
        said = make_message("never.quota_of", **values, model=quota.model)
    return _never(said, needed_units=needed, limit_units=most)


def _never(said: Message, boards: list[str] | None = None, **numbers: int) -> Reason:
    evidence: dict[str, Any] = dict(numbers)
    if boards:
        evidence["boards"] = boards
    return Reason(ReasonCode.IMPOSSIBLE, said, evidence, make_message("unblocks.change"))
