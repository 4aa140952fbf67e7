"""Why a job was not placed: one dominant reason, and the numbers behind it."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from agents.contract.documents import SliceKind
from agents.contract.message import Message, join_clauses
from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.message_templates import NODE_HOLDING, make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import SINGLE_NODE, RunningJob, WaitingJob
from scheduler.core.placement.ledger import GpuSpace, Ledger, NodeSpace
from scheduler.core.placement.node_eligibility import (
    IMAGE_UNFIT,
    NO_EGRESS,
    NO_GIT,
    NO_LAUNCHER,
    NO_RDMA,
    NO_VOLUME,
    eligibility_key,
    exclusion_message,
    is_eligible,
    network_of,
)
from scheduler.core.request.quantities import memory_words

CanPlace = Callable[[WaitingJob, DeviceOption, Ledger], bool]


def explain(
    job: WaitingJob,
    options: Sequence[DeviceOption],
    ledger: Ledger,
    can_place: CanPlace,
) -> Reason:
    """The dominant reason why the gang cannot get any of its options at this point of the pass: of
    the cheapest one that some node takes work for."""
    want = next((option for option in options if _usable(job, option, ledger)), options[0])
    usable = _usable(job, want, ledger)
    if not usable:
        outs = (
            (node.view.name, exclusion_message(node.view, job)) for node in _serving(want, ledger)
        )
        return _unavailable({name: out for name, out in outs if out is not None}, job)
    if _could_alone(job, want, ledger, can_place):
        return _priority()
    needed = want.count * job.replicas
    free = _free_here(job, want, ledger)
    hosts = _hosts(job, want, ledger)
    filters = {
        "all": len(ledger.nodes),
        "with_this_gpu": len(_serving(want, ledger)),
        "that_take_it": len(usable),
        "with_cpu_and_memory": hosts,
        **({"with_disk": _with_disk(job, want, ledger)} if job.disk_mib else {}),
        "with_room": free.nodes,
    }
    evidence = {
        "needed": needed,
        "free": free.total,
        "by_node": free.by_node,
        "filters": filters,
        **_shortage(want, ledger),
        **_holders(job, want, ledger),
    }
    values = {"needed": needed, "device": _name(want), "free": free.total}
    if free.total < needed:
        message = make_message("resources.devices", **values)
        return Reason(ReasonCode.RESOURCES, message, evidence, _UNTIL_ENDS)
    if not hosts:
        message = make_message("resources.host", **values)
        return Reason(ReasonCode.RESOURCES, message, evidence, _UNTIL_ENDS)
    if job.disk_mib and not filters["with_disk"]:
        return _no_disk(job, want, ledger, values, evidence)
    if want.count * job.replicas > free.max_on_node and job.topology in SINGLE_NODE:
        message = make_message("topology.apart", **values)
        return Reason(ReasonCode.TOPOLOGY, message, evidence, make_message("unblocks.any_topology"))
    if reason := _out_of_reach(job, want, ledger, values, evidence):
        return reason
    message = make_message("fragmentation.apart", **values)
    return Reason(ReasonCode.FRAGMENTATION, message, evidence, _UNTIL_ENDS)


# A key of the policies of nodes.
_NETWORKS = make_message("unblocks.networks", setting="overlay")
_ADDRESSES = make_message("unblocks.addresses", setting="TESSERA_GANG_NETWORK_RANGE")
_UNTIL_ENDS = make_message("unblocks.running_ends")
# The evidence names at most this many nodes, those with most room.
MAX_NODES = 12


def _could_alone(job: WaitingJob, want: DeviceOption, ledger: Ledger, can_place: CanPlace) -> bool:
    """Whether it would start if no job were ahead of it."""
    if ledger.mark() == 0:
        return False
    untouched = ledger.pristine()
    mark = untouched.mark()
    could = can_place(job, want, untouched)
    untouched.rollback(mark)
    return could


def _serving(want: DeviceOption, ledger: Ledger) -> list[NodeSpace]:
    """The nodes with a GPU of this board, by name."""

    def compute() -> list[NodeSpace]:
        by_name = sorted(ledger.nodes.values(), key=lambda n: (n.view.name, n.view.id))
        return [n for n in by_name if any(gpu.board.key == want.board for gpu in n.gpus)]

    return ledger.cached(("serving", want.board), compute, for_whole_pass=True)


def _usable(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> list[NodeSpace]:
    """Those of them that are available, and eligible for this job."""

    def compute() -> list[NodeSpace]:
        serving = _serving(want, ledger)
        return [n for n in serving if n.view.available and is_eligible(n.view, job)]

    key = ("usable", want.board, eligibility_key(job))
    return ledger.cached(key, compute, for_whole_pass=True)


@dataclass(frozen=True, slots=True)
class _Free:
    """Free devices of one option."""

    total: int
    nodes: int
    """How many nodes have any."""
    max_on_node: int
    by_node: dict[str, int]
    """By name, of the nodes with most."""


def _free_here(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> _Free:
    def compute() -> _Free:
        free = {n.view.name: _free(n, job, want) for n in _usable(job, want, ledger)}
        first = dict(nlargest(MAX_NODES, free.items(), key=lambda one: one[1]))
        return _Free(sum(free.values()), sum(map(bool, free.values())), max(free.values()), first)

    whose = (job.project, job.processes) if want.kind is SliceKind.MPS else ()
    return ledger.cached(("free", want, eligibility_key(job), whose), compute)


def _hosts(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> int:
    """How many nodes have enough CPU and memory free."""

    def compute() -> int:
        return sum(
            n.cpu_free_milli >= job.cpu_milli and n.memory_free_mib >= job.memory_mib
            for n in _usable(job, want, ledger)
        )

    size = (job.cpu_milli, job.memory_mib)
    return ledger.cached(("hosts", want.board, eligibility_key(job), size), compute)


def _with_disk(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> int:
    """How many nodes also have enough disk free."""

    def compute() -> int:
        return sum(n.can_host(job) for n in _usable(job, want, ledger))

    size = (job.cpu_milli, job.memory_mib, job.disk_mib)
    return ledger.cached(("disk", want.board, eligibility_key(job), size), compute)


def _no_disk(
    job: WaitingJob,
    want: DeviceOption,
    ledger: Ledger,
    values: dict[str, Any],
    evidence: dict[str, Any],
) -> Reason:
    """Evidence: the most free disk of a node, and how many nodes do not report their disk. The job
    waits for running jobs only if some node has enough disk in all."""
    hosts = _usable(job, want, ledger)
    silent = sum(n.view.disk_total_mib is None for n in hosts)
    evidence |= {"disk_free_mib": max(0, *(n.disk_free_mib for n in hosts))}
    evidence |= {"disk_not_told": silent} if silent else {}
    values |= {"disk": memory_words(job.disk_mib)}
    if any((n.view.disk_total_mib or 0) >= job.disk_mib for n in hosts):
        message = make_message("resources.disk", **values)
        return Reason(ReasonCode.RESOURCES, message, evidence, _UNTIL_ENDS)
    message = make_message("resources.disk_not_told", **values)
    return Reason(ReasonCode.RESOURCES, message, evidence, make_message("unblocks.agent_updated"))


def _out_of_reach(
    job: WaitingJob,
    want: DeviceOption,
    ledger: Ledger,
    values: dict[str, Any],
    evidence: dict[str, Any],
) -> Reason | None:
    """Enough is free for a gang, but on nodes whose replicas cannot reach each other; or None."""
    if job.replicas == 1:
        return None
    free: Counter[Hashable] = Counter()
    fabrics: set[str] = set()
    joined = 0
    for node in _usable(job, want, ledger):
        here = _free(node, job, want)
        free[network_of(node.view, job)] += here
        fabrics |= {node.view.fabric} if here else set()
        joined += here if node.view.overlay else 0
    most = max(free.values())
    largest = ledger.snapshot.largest_networked_gang
    if job.replicas > largest and joined:
        message = make_message("topology.no_addresses", **values)
        evidence |= {"largest_networked_gang": largest}
        return Reason(ReasonCode.TOPOLOGY, message, evidence, _ADDRESSES)
    if most >= values["needed"]:
        return None
    networks = sum(map(bool, free.values()))
    message = make_message("topology.networks", **values, networks=networks, most=most)
    evidence |= {"networks": networks, "most_in_one_network": most}
    is_joined = len(fabrics) == 1
    unblocks = make_message("unblocks.rdma") if is_joined else _NETWORKS
    return Reason(ReasonCode.TOPOLOGY, message, evidence, unblocks)


def _holders(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> dict[str, Any]:
    """How many jobs of the project and of others have such GPUs, and when the first of them ends at
    the latest."""

    def compute() -> tuple[Counter[str], int]:
        held = [run for run in ledger.snapshot.running if _holds(run, want.board, ledger)]
        ends = min((run.ends_at for run in held), default=0)
        return Counter(run.job.project for run in held), max(ends, ledger.snapshot.now)

    by_project, ends = ledger.cached(("holders", want.board), compute, for_whole_pass=True)
    if not by_project:
        return {}
    own = by_project[job.project]
    others = by_project.total() - own
    return {
        "held_by_own_jobs": own,
        "held_by_other_jobs": others,
        "first_ends_at": ends,
    }


def _holds(run: RunningJob, board: str, ledger: Ledger) -> bool:
    gpus = (ledger.gpus.get(d.gpu) for replica in run.replicas for d in replica.devices)
    return any(gpu is not None and gpu.board.key == board for gpu in gpus)


def repartition_reason() -> Reason:
    return Reason(
        ReasonCode.REPARTITION,
        make_message("repartition.merging"),
        {},
        make_message("unblocks.nothing_to_do"),
    )


def _priority() -> Reason:
    return Reason(ReasonCode.PRIORITY, make_message("priority.taken"), {}, _UNTIL_ENDS)


def _unavailable(why: dict[str, Message], job: WaitingJob) -> Reason:
    if not why:
        message, unblocks = (
            make_message("node_unavailable.none"),
            make_message("unblocks.node_added"),
        )
        return Reason(ReasonCode.NODE_UNAVAILABLE, message, {}, unblocks)
    distinct = sorted({message.text: message for message in why.values()}.items())
    whys = join_clauses(*(message for _, message in distinct[:MAX_NODES]))
    if len(distinct) > MAX_NODES:
        whys = join_clauses(
            whys, make_message("node_unavailable.more", more=len(distinct) - MAX_NODES)
        )
    evidence = {"nodes": {name: message.text for name, message in sorted(why.items())[:MAX_NODES]}}
    message = make_message("node_unavailable.all", why=whys)
    if any(message.key == NODE_HOLDING for message in why.values()):
        unblocks = make_message("unblocks.node_allowed")
        return Reason(ReasonCode.NODE_HOLDING, message, evidence, unblocks)
    if any(message.key in NO_VOLUME for message in why.values()):
        roots = ", ".join(dict.fromkeys(word.partition(":")[0] for word in job.volume_access))
        unblocks = make_message("unblocks.volume", roots=roots)
        return Reason(
            ReasonCode.VOLUME, make_message("volume.nowhere", why=whys), evidence, unblocks
        )
    unfit = [message for message in why.values() if message.key == IMAGE_UNFIT]
    if unfit:
        unblocks = make_message("unblocks.image", need=unfit[0].values["need"])
        return Reason(ReasonCode.IMAGE, make_message("image.nowhere", why=whys), evidence, unblocks)
    unblocks = make_message("unblocks.node_back")
    if any(message.key == NO_LAUNCHER for message in why.values()):
        unblocks = make_message("unblocks.launcher", launcher=str(job.launcher))
    elif any(message.key == NO_RDMA for message in why.values()):
        unblocks = make_message("unblocks.rdma")
    elif any(message.key == NO_GIT for message in why.values()):
        unblocks = make_message("unblocks.git", host=job.git_host)
    elif any(message.key == NO_EGRESS for message in why.values()):
        unblocks = make_message("unblocks.egress")
    return Reason(ReasonCode.NODE_UNAVAILABLE, message, evidence, unblocks)


def _free(node: NodeSpace, job: WaitingJob, want: DeviceOption) -> int:
    """Empty whole GPUs, shares that fit, or slices by the free amounts, wherever on a GPU."""
    alike = [gpu for gpu in node.open_gpus if gpu.board.key == want.board]
    if not alike:
        # Most nodes of a busy cluster.
        return 0
    if want.kind is SliceKind.GPU:
        return sum(1 for gpu in alike if gpu.is_empty)
    if want.kind is SliceKind.MPS:
        clients = node.view.share_clients
        beside = (gpu.share_room(job.project, clients, without_idle=True) for gpu in alike)
        size = (want.threads, want.memory_mib, job.processes)
        return sum(left.max_shares(*size) for left in beside if left)
    return sum(_free_slices(gpu, want) for gpu in alike)


def _free_slices(gpu: GpuSpace, want: DeviceOption) -> int:
    """By memory and compute slices and the profile's maximum; their places are not checked."""
    profile = gpu.board.profile(want.profile)
    if profile is None or not gpu.may_carve(without_idle=True):
        return 0
    held = [s for key, s in gpu.slices.items() if not gpu.is_idle(key)]
    profiles = [p for s in held if (p := gpu.board.profile(s.profile))]
    memory = gpu.board.memory_slices - sum(s.size for s in held)
    compute = gpu.board.compute_slices - sum(p.compute_slices for p in profiles)
    alike = sum(1 for s in held if s.profile == want.profile)
    by_size = min(memory // profile.memory_slices, compute // profile.compute_slices)
    return max(0, min(by_size, profile.max_instances - alike))


def _shortage(want: DeviceOption, ledger: Ledger) -> dict[str, Any]:
    def compute() -> int:
        return sum(not g.view.healthy for node in _serving(want, ledger) for g in node.gpus)

    faulted = ledger.cached(("out of service", want.board), compute, for_whole_pass=True)
    return {"out_of_service": faulted} if faulted else {}


def _name(want: DeviceOption) -> Message | str:
    model = want.board.rsplit("-", 1)[0]
    if want.kind is SliceKind.MPS:
        return make_message("device.share", threads=want.threads, model=model)
    return (
        make_message("device.slice", profile=want.profile, model=model) if want.profile else model
    )
