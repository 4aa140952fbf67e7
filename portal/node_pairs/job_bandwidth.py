"""What a user's own job with nccl-tests reached, beside what its devices and network should.

It is for the page of that job alone: a user may print any table, so it never counts for a pair.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agents.contract.documents import SliceKind
from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from portal.inventory.models import Node, Slice
from portal.jobs.models import Job, Replica
from portal.node_pairs.expectations import line_rate_of
from portal.node_pairs.judgement import PairVerdict, verdict_of
from portal.node_pairs.services import measured_of_attempt
from scheduler.advisor.gpus import GPUS
from scheduler.core.model.states import JOB_FINAL, JobStatus

# Nodes whose network cards are compared.
MOST_NODES = 64


@dataclass(frozen=True, slots=True)
class JobBandwidth:
    """Bus bandwidths in MB/s (10^6 bytes)."""

    busbw_mb_per_second: int
    message_bytes: int
    wrong_values: int
    expected_mb_per_second: int
    """0 if unknown."""
    basis: Message
    """What the expected number is, or why there is none."""
    verdict: PairVerdict
    checks: tuple[Message, ...]
    """What to check, in this order; empty unless it is slow or wrong."""


def job_bandwidth(job: Job, replicas: Sequence[Replica]) -> JobBandwidth | None:
    """Of the last attempt of an ended job with the launcher nccl-tests; None for any other, and
    where NCCL printed no whole table. `replicas`: of that attempt, with their devices. Reads the
    end of one log. Raises StoreUnavailable."""
    is_test = job.request.get("launcher") == LauncherName.NCCL_TESTS
    head = next((replica for replica in replicas if replica.rank == 0), None)
    if not is_test or head is None or JobStatus(job.status) not in JOB_FINAL:
        return None
    output = measured_of_attempt(head.attempt, head)
    best = output.best
    if best is None or output.is_ring or not (output.is_complete or output.wrong_values):
        return None
    is_between = len({replica.node_id for replica in replicas}) > 1
    expected, basis = _between(replicas) if is_between else _within(replicas)
    reached = round(best.busbw * 1_000)
    verdict = verdict_of(reached, output.wrong_values, expected)
    return JobBandwidth(
        busbw_mb_per_second=reached,
        message_bytes=best.size_bytes,
        wrong_values=output.wrong_values,
        expected_mb_per_second=expected,
        basis=basis,
        verdict=verdict,
        checks=_checks(verdict, is_between=is_between),
    )


def _between(replicas: Sequence[Replica]) -> tuple[int, Message]:
    """The line rate of the slowest node's rails, as much of it as the job has of the GPUs there.
    Two queries."""
    taken: Counter[object] = Counter()
    for replica in replicas:
        taken[replica.node_id] += len(_devices(replica))
    known = {replica.node_id for replica in replicas if replica.node_id}
    nodes = list(Node.objects.filter(pk__in=known).only("topology", "facts")[: MOST_NODES + 1])
    is_known = len(nodes) == len(taken) <= MOST_NODES
    rate = line_rate_of(nodes, gpus=taken).mb_per_second if is_known else 0
    if not rate:
        return 0, Message("Its nodes do not all offer RDMA of one kind: no line rate is known")
    return rate, Message(
        "the line rate of the network cards of the slowest node, in proportion to these GPUs"
    )


def _within(replicas: Sequence[Replica]) -> tuple[int, Message]:
    """What nccl-tests measured between eight GPUs of this board."""
    held = [device for replica in replicas for device in _devices(replica)]
    boards = {device.gpu.board for device in held if device.kind == SliceKind.GPU}
    is_known = len(held) > 1 and all(device.kind == SliceKind.GPU for device in held)
    board = next(iter(boards)) if len(boards) == 1 else ""
    if not is_known or board not in GPUS:
        return 0, Message("No source says what these devices should reach")
    basis = "what eight %(board)s reach over NVLink and NVSwitch, or over PCIe without them"
    return round(GPUS[board].bus_bandwidth / 1e6), Message(basis, board=board)


def _devices(replica: Replica) -> list[Slice]:
    """Those of Tessera's own nodes."""
    return [row.slice for row in replica.allocations.all() if row.slice is not None]


def _checks(verdict: PairVerdict, *, is_between: bool) -> tuple[Message, ...]:
    if verdict is PairVerdict.WRONG:
        return (
            Message("A sum was wrong: tell an admin. A GPU, a link or a network card is faulty"),
        )
    if verdict is not PairVerdict.SLOW:
        return ()
    if is_between:
        return (
            Message("GPUDirect RDMA: nvidia-peermem is loaded on each node"),
            Message("The log with NCCL_DEBUG=INFO says NET/IB and GDRDMA, not NET/Socket"),
            Message("Every rail is up at its full rate (ibstat); then cables and switch ports"),
            Message("As many network cards are used as there are GPUs"),
        )
    return (
        Message("nvidia-smi topo -m shows NV links between the GPUs, not PHB or SYS"),
        Message("nvidia-smi nvlink --status shows every link up"),
        Message("On a machine with NVSwitch, Fabric Manager runs in the driver's version"),
        Message("The log with NCCL_DEBUG=INFO says P2P, not SHM: PCIe ACS turns P2P off"),
    )
