"""What can never run on the cluster as it is, so that a submit is refused at once."""

from collections import Counter
from copy import copy
from typing import Any

from agents.combinations.combination import CombinationVerdict
from agents.combinations.table import matching
from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from agents.contract.message import Message
from agents.contract.units import as_gpus
from scheduler.core.devices.options import DeviceOption, device_options, gpu_board
from scheduler.core.model.gang_shapes import job_shape
from scheduler.core.model.message_templates import make_message, owner_label
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import (
    SINGLE_NODE,
    ClusterSnapshot,
    NodeView,
    QuotaView,
    WaitingJob,
)
from scheduler.core.placement.mps_shares import ShareRoom
from scheduler.core.quota.ceilings import quota_too_small
from scheduler.core.request.quantities import cpu_words, memory_words

# For each group of equal nodes: one of them, and their number.
Nodes = list[tuple[NodeView, int]]


class ClusterCapacity:
    """What the cluster could run if it were empty. Equal nodes are examined once."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.quotas = snapshot.quotas
        alike: dict[object, list[NodeView]] = {}
        for node in snapshot.nodes:
            alike.setdefault(_kind(node), []).append(node)
        self.nodes = [(nodes[0], len(nodes)) for nodes in alike.values()]
        known = {(g.board, g.profiles): g for node, _ in self.nodes for g in node.gpus}
        found = {board.key: board for board in map(gpu_board, known.values())}
        self.boards = [found[key] for key in sorted(found)]

    def with_quotas(self, quotas: tuple[QuotaView, ...]) -> "ClusterCapacity":
        """The same devices, with these quotas. The nodes are not examined again."""
        capacity = copy(self)
        capacity.quotas = quotas
        return capacity

    def device_reason(self, job: WaitingJob) -> Reason | None:
        """Why no devices here could ever run the job; or None. Unavailable nodes count. A cluster
        without GPUs refuses nothing, because nodes may be added."""
        if not self.boards:
            return None
        if job.device.mps_threads and not any(node.share_clients for node, _ in self.nodes):
            return _never(make_message("never.no_shares"))
        options = device_options(job.device, self.boards)
        if not options:
            return _no_such_device(job, self.boards)
        reasons = [reason for option in options if (reason := _too_large(job, option, self.nodes))]
        if len(reasons) == len(options):
            # The board that comes nearest gives the most helpful reason.
            return max(reasons, key=lambda reason: reason.evidence.get("largest", 0))
        return None

    def quota_reason(self, job: WaitingJob) -> Reason | None:
        """Why its owner's quota could never cover it; or None."""
        return _over_quota(job, device_options(job.device, self.boards), self.quotas)

    def infeasible_reason(self, job: WaitingJob) -> Reason | None:
        """Why the job can never run here; or None."""
        return combination_reason(job) or self.device_reason(job) or self.quota_reason(job)


def combination_reason(job: WaitingJob) -> Reason | None:
    """Why what it requests does not go together on any cluster; or None. A request is refused for
    it, so this is a job of before the rule, or of a template that was."""
    shape = job_shape(job)
    for row in matching(shape, CombinationVerdict.REFUSE):
        evidence = {"combination": str(row.code)}
        unblocks = make_message("unblocks.change")
        return Reason(ReasonCode.IMPOSSIBLE, row.sentence(shape), evidence, unblocks)
    return None


def infeasible_reason(job: WaitingJob, snapshot: ClusterSnapshot) -> Reason | None:
    """Why the job can never run here, for lack of devices or of quota; or None."""
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
        words = {
            "asked": memory_words(device.memory_mib or device.mps_memory_mib),
            "largest": memory_words(largest),
        }
        return _never(make_message("never.memory", **words), models)
    requested: Message | str = device.models[0] if device.models else ""
    for other in device.models[1:]:
        requested = Message("clause.or", first=requested, then=other)
    return _never(make_message("never.model", asked=requested, boards=models), models)


def _too_large(job: WaitingJob, option: DeviceOption, nodes: Nodes) -> Reason | None:
    """Why the gang exceeds the cluster, or one replica every node; or None."""
    fitting = [(node.fabric, _replicas_on(node, job, option), many) for node, many in nodes]
    largest = max((replicas for _, replicas, _ in fitting), default=0)
    if largest == 0:
        return _no_node(job, option, [node for node, _ in nodes])
    needed = job.replicas
    if job.topology in SINGLE_NODE and needed > largest:
        holders = [(node, 1) for node, _ in nodes if _replicas_on(node, job, option) == largest]
        return _too_few("never.one_node", job, option, holders[:1], largest)
    by_fabric: Counter[str] = Counter()
    for fabric, replicas, many in fitting:
        by_fabric[fabric] += replicas * many
    if needed > (largest := max(by_fabric.values())):
        widest = max(by_fabric, key=lambda fabric: by_fabric[fabric])
        key = "never.network" if len(by_fabric) > 1 else "never.cluster"
        within = [(node, many) for node, many in nodes if node.fabric == widest]
        return _too_few(key, job, option, within, largest)
    return None


def _too_few(key: str, job: WaitingJob, option: DeviceOption, nodes: Nodes, largest: int) -> Reason:
    """Names what these nodes have least of, in replicas."""
    by_devices = sum(_by_devices(node, job, option) * many for node, many in nodes)
    limits = {
        "devices": by_devices,
        "cpu": sum(_by_cpu(n, job, _by_devices(n, job, option)) * many for n, many in nodes),
        "memory": sum(_by_memory(n, job, _by_devices(n, job, option)) * many for n, many in nodes),
        "disk": sum(_by_disk(n, job, _by_devices(n, job, option)) * many for n, many in nodes),
    }
    short = min(limits, key=lambda name: limits[name])
    amounts = {
        "cpu": cpu_words(job.cpu_milli),
        "memory": memory_words(job.memory_mib),
        "disk": memory_words(job.disk_mib),
    }
    each: Message | str = ""
    if short in amounts:
        each = make_message(f"each.{short}", amount=amounts[short])
    message = make_message(
        key, needed=job.replicas, each=each, what=make_message(f"short.{short}"), most=largest
    )
    return _never(message, needed=job.replicas, largest=largest)


def _no_node(job: WaitingJob, option: DeviceOption, nodes: list[NodeView]) -> Reason:
    gpus = max(_gpus_on(node, option.board) for node in nodes)
    if gpus < option.count:
        message = make_message("never.gpus", needed=option.count, board=option.board, most=gpus)
        return _never(message, needed=option.count, largest=gpus)
    holders = [n for n in nodes if _gpus_on(n, option.board) >= option.count]
    if option.kind is SliceKind.MPS and job.processes > (
        largest := max(n.share_clients for n in holders)
    ):
        message = make_message(
            "never.processes", needed=job.processes, most=largest, board=option.board
        )
        return _never(message, needed=job.processes, largest=largest)
    if hosts := [n for n in holders if _by_cpu_and_memory(n, job)]:
        # A node that does not report its disk would do, see `_by_disk`.
        disk = max(n.disk_total_mib or 0 for n in hosts)
        requested = {"disk": memory_words(job.disk_mib), "most": memory_words(disk)}
        return _never(make_message("never.disk", **requested), disk_mib=disk)
    return _no_host(job, holders)


def _no_host(job: WaitingJob, holders: list[NodeView]) -> Reason:
    """Names the one of CPU and memory that no node has enough of; both, where no node has both."""
    cpu = max(n.cpu_total_milli for n in holders)
    memory = max(n.memory_total_mib for n in holders)
    words = {"cpu": cpu_words(job.cpu_milli), "memory": memory_words(job.memory_mib)}
    if cpu < job.cpu_milli and memory >= job.memory_mib:
        message = make_message("never.cpu", cpu=words["cpu"], most=cpu_words(cpu))
    elif memory < job.memory_mib and cpu >= job.cpu_milli:
        most = memory_words(memory)
        message = make_message("never.host_memory", memory=words["memory"], most=most)
    else:
        most_of = {"most_cpu": cpu_words(cpu), "most_memory": memory_words(memory)}
        message = make_message("never.host", **words, **most_of)
    return _never(message, cpu_milli=cpu, memory_mib=memory)


def _replicas_on(node: NodeView, job: WaitingJob, option: DeviceOption) -> int:
    """How many replicas an empty node could take."""
    by_gpu = _by_devices(node, job, option)
    return min(by_gpu, _by_cpu_and_memory(node, job), _by_disk(node, job, by_gpu))


def _by_devices(node: NodeView, job: WaitingJob, option: DeviceOption) -> int:
    boards = [board for gpu in node.gpus if (board := gpu_board(gpu)).key == option.board]
    return sum(_per_gpu(node, board, job, option) for board in boards) // option.count


def _by_cpu_and_memory(node: NodeView, job: WaitingJob) -> int:
    by_cpu = node.cpu_total_milli // max(1, job.cpu_milli)
    return min(by_cpu, node.memory_total_mib // max(1, job.memory_mib))


def _by_cpu(node: NodeView, job: WaitingJob, largest: int) -> int:
    return min(largest, node.cpu_total_milli // max(1, job.cpu_milli))


def _by_memory(node: NodeView, job: WaitingJob, largest: int) -> int:
    return min(largest, node.memory_total_mib // max(1, job.memory_mib))


def _by_disk(node: NodeView, job: WaitingJob, largest: int) -> int:
    """A node that does not report its disk may have enough for all of `largest`: a job that
    requests disk waits until the node reports it."""
    if not job.disk_mib or node.disk_total_mib is None:
        return largest
    return min(largest, node.disk_total_mib // job.disk_mib)


def _per_gpu(node: NodeView, board: Board, job: WaitingJob, option: DeviceOption) -> int:
    if option.kind is SliceKind.GPU:
        return 1
    if option.kind is SliceKind.MPS:
        empty = ShareRoom(100, board.memory_mib, node.share_clients)
        return empty.max_shares(option.threads, option.memory_mib, job.processes)
    profile = board.profile(option.profile)
    return profile.max_instances if profile else 0


def _gpus_on(node: NodeView, board: str) -> int:
    return sum(1 for gpu in node.gpus if gpu_board(gpu).key == board)


def _over_quota(
    job: WaitingJob, options: list[DeviceOption], quotas: tuple[QuotaView, ...]
) -> Reason | None:
    """Why no option could ever be covered, even with all that others lend; or None."""
    found = None
    for option in options:
        needed = option.replica_units * job.replicas
        short = quota_too_small(job, needed, option.board, quotas)
        if short is None:
            return None
        found = found or (needed, *short)
    if found is None:
        return None
    needed, quota, largest = found
    values: dict[str, Any] = {
        "needed": as_gpus(needed),
        "whose": owner_label(quota.project, quota.user),
        "most": as_gpus(largest, round_up=False),
    }
    message = make_message("never.quota", **values)
    if quota.model:
        message = make_message("never.quota_of", **values, model=quota.model)
    return _never(message, needed_units=needed, limit_units=largest)


def _never(message: Message, boards: list[str] | None = None, **numbers: int) -> Reason:
    evidence: dict[str, Any] = dict(numbers)
    if boards:
        evidence["boards"] = boards
    return Reason(ReasonCode.IMPOSSIBLE, message, evidence, make_message("unblocks.change"))
