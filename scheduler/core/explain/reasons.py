"""Why a job was not placed: one dominant reason, with what is missing in numbers."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from agents.contract.documents import SliceKind
from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.message import Message, join_clauses, make_message
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import RunningJob, WaitingJob
from scheduler.core.placement.ledger import GpuSpace, Ledger, NodeSpace
from scheduler.core.placement.legality import SINGLE_NODE
from scheduler.core.placement.node_eligibility import ineligible_message, unavailable_message
from scheduler.core.request.quantities import write_memory

CanPlace = Callable[[WaitingJob, DeviceOption, Ledger], bool]


def explain(
    job: WaitingJob,
    want: DeviceOption,
    ledger: Ledger,
    can_place: CanPlace,
) -> Reason:
    """The dominant reason that `want` cannot be had for the gang at this point of the pass."""
    usable = _usable(job, want, ledger)
    if not usable:
        outs = ((node.view.name, _out(node, job)) for node in _serving(want, ledger))
        return _unavailable({name: out for name, out in outs if out})
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
        said = make_message("resources.devices", **values)
        return Reason(ReasonCode.RESOURCES, said, evidence, _UNTIL_ENDS)
    if not hosts:
        said = make_message("resources.host", **values)
        return Reason(ReasonCode.RESOURCES, said, evidence, _UNTIL_ENDS)
    if job.disk_mib and not filters["with_disk"]:
        return _no_disk(job, want, ledger, values, evidence)
    if want.count * job.replicas > free.max_on_node and job.topology in SINGLE_NODE:
        said = make_message("topology.apart", **values)
        return Reason(ReasonCode.TOPOLOGY, said, evidence, make_message("unblocks.any_topology"))
    said = make_message("fragmentation.apart", **values)
    return Reason(ReasonCode.FRAGMENTATION, said, evidence, _UNTIL_ENDS)


_UNTIL_ENDS = make_message("unblocks.running_ends")
# The evidence names at most so many nodes, those with most room.
MAX_NODES = 12


def _out(node: NodeSpace, job: WaitingJob) -> Message | None:
    return (
        ineligible_message(node.view, job)
        if node.view.available
        else unavailable_message(node.view)
    )


def _could_alone(job: WaitingJob, want: DeviceOption, ledger: Ledger, can_place: CanPlace) -> bool:
    """Whether it would start if nobody stood ahead of it."""
    if ledger.mark() == 0:
        return False
    untouched = ledger.pristine()
    mark = untouched.mark()
    could = can_place(job, want, untouched)
    untouched.rollback(mark)
    return could


def _serving(want: DeviceOption, ledger: Ledger) -> list[NodeSpace]:
    """The nodes with such a GPU, by name."""

    def work_out() -> list[NodeSpace]:
        by_name = sorted(ledger.nodes.values(), key=lambda n: (n.view.name, n.view.id))
        return [n for n in by_name if any(gpu.board.key == want.board for gpu in n.gpus)]

    return ledger.cached(("serving", want.board), work_out, for_whole_pass=True)


def _usable(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> list[NodeSpace]:
    """Those that take work, and this work."""

    def work_out() -> list[NodeSpace]:
        return [node for node in _serving(want, ledger) if not _out(node, job)]

    key = ("usable", want.board, job.needs, job.tolerates)
    return ledger.cached(key, work_out, for_whole_pass=True)


@dataclass(frozen=True, slots=True)
class _Free:
    """Wanted devices that are free: in all, on how many nodes, at most on one, and by the names of
    the nodes that have most."""

    total: int
    nodes: int
    max_on_node: int
    by_node: dict[str, int]


def _free_here(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> _Free:
    def work_out() -> _Free:
        free = {n.view.name: _free(n, job, want) for n in _usable(job, want, ledger)}
        first = dict(nlargest(MAX_NODES, free.items(), key=lambda one: one[1]))
        return _Free(sum(free.values()), sum(map(bool, free.values())), max(free.values()), first)

    whose = (job.project, job.processes) if want.kind is SliceKind.MPS else ()
    return ledger.cached(("free", want, job.needs, job.tolerates, whose), work_out)


def _hosts(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> int:
    """How many nodes have the CPU and memory free."""

    def work_out() -> int:
        return sum(
            n.cpu_free_milli >= job.cpu_milli and n.memory_free_mib >= job.memory_mib
            for n in _usable(job, want, ledger)
        )

    size = (job.cpu_milli, job.memory_mib)
    return ledger.cached(("hosts", want.board, job.needs, job.tolerates, size), work_out)


def _with_disk(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> int:
    """How many nodes have the disk free beside their CPU and memory."""

    def work_out() -> int:
        return sum(n.can_host(job) for n in _usable(job, want, ledger))

    size = (job.cpu_milli, job.memory_mib, job.disk_mib)
    return ledger.cached(("disk", want.board, job.needs, job.tolerates, size), work_out)


def _no_disk(
    job: WaitingJob,
    want: DeviceOption,
    ledger: Ledger,
    values: dict[str, Any],
    evidence: dict[str, Any],
) -> Reason:
    """With the most disk that is free on a node, and how many do not say how much they have. It
    waits for running work only where some node has so much in all."""
    hosts = _usable(job, want, ledger)
    silent = sum(n.view.disk_total_mib is None for n in hosts)
    evidence |= {"disk_free_mib": max(0, *(n.disk_free_mib for n in hosts))}
    evidence |= {"disk_not_told": silent} if silent else {}
    values |= {"disk": write_memory(job.disk_mib)}
    if any((n.view.disk_total_mib or 0) >= job.disk_mib for n in hosts):
        said = make_message("resources.disk", **values)
        return Reason(ReasonCode.RESOURCES, said, evidence, _UNTIL_ENDS)
    said = make_message("resources.disk_not_told", **values)
    return Reason(ReasonCode.RESOURCES, said, evidence, make_message("unblocks.agent_updated"))


def _holders(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> dict[str, Any]:
    """How many jobs hold such GPUs, of the own project and of others, and when the first of them
    ends at the latest."""

    def work_out() -> tuple[Counter[str], int]:
        held = [run for run in ledger.snapshot.running if _holds(run, want.board, ledger)]
        ends = min((run.ends_at for run in held), default=0)
        return Counter(run.job.project for run in held), max(ends, ledger.snapshot.now)

    by_project, ends = ledger.cached(("holders", want.board), work_out, for_whole_pass=True)
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


def _unavailable(why: dict[str, Message]) -> Reason:
    if not why:
        said, helps = make_message("node_unavailable.none"), make_message("unblocks.node_added")
        return Reason(ReasonCode.NODE_UNAVAILABLE, said, {}, helps)
    told = sorted({said.text: said for said in why.values()}.items())
    whys = join_clauses(*(said for _, said in told[:MAX_NODES]))
    if len(told) > MAX_NODES:
        whys = join_clauses(whys, make_message("node_unavailable.more", more=len(told) - MAX_NODES))
    evidence = {"nodes": {name: said.text for name, said in sorted(why.items())[:MAX_NODES]}}
    said = make_message("node_unavailable.all", why=whys)
    return Reason(ReasonCode.NODE_UNAVAILABLE, said, evidence, make_message("unblocks.node_back"))


def _free(node: NodeSpace, job: WaitingJob, want: DeviceOption) -> int:
    """Whole GPUs that are empty, shares that fit, or slices by what is free in number, wherever on
    a GPU it lies."""
    alike = [gpu for gpu in node.open_gpus if gpu.board.key == want.board]
    if want.kind is SliceKind.GPU:
        return sum(1 for gpu in alike if gpu.is_empty)
    if want.kind is SliceKind.MPS:
        clients = node.view.share_clients
        beside = (gpu.share_room(job.project, clients, without_idle=True) for gpu in alike)
        size = (want.threads, want.memory_mib, job.processes)
        return sum(left.max_shares(*size) for left in beside if left)
    return sum(_free_slices(gpu, want) for gpu in alike)


def _free_slices(gpu: GpuSpace, want: DeviceOption) -> int:
    """By memory and compute slices and the profile's maximum; only their places are not asked."""
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
    def work_out() -> int:
        return sum(not g.view.healthy for node in _serving(want, ledger) for g in node.gpus)

    faulted = ledger.cached(("out of service", want.board), work_out, for_whole_pass=True)
    return {"out_of_service": faulted} if faulted else {}


def _name(want: DeviceOption) -> Message | str:
    model = want.board.rsplit("-", 1)[0]
    if want.kind is SliceKind.MPS:
        return make_message("device.share", threads=want.threads, model=model)
    return (
        make_message("device.slice", profile=want.profile, model=model) if want.profile else model
    )
