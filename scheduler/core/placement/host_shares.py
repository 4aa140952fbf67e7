"""What a replica gets of its node's CPU and memory if its request does not say: the share of the
node that its device is.

A node's GPUs have equal parts of it, and a slice has the part of its GPU that it has of the memory
slots. Those add up to one GPU at most in every layout; units do not (4g and 3g of an H200 together
are 60,000). So whatever devices share a node, their defaults fit on it together.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from scheduler.core.devices.options import DeviceOption, device_options
from scheduler.core.model.snapshot import DeviceRequest
from scheduler.core.placement.node_eligibility import allows
from scheduler.core.request.values import HostShare

CORE_MILLI, GIB_MIB = 1_000, 1 << 10
# A node refuses less (agents.contract.documents).
MIN_CPU_MILLI, MIN_MEMORY_MIB = 1, 4


@dataclass(frozen=True, slots=True)
class HostNode:
    """A node as far as defaults depend on it."""

    cpu_milli: int
    """What jobs may have of it in all, as `memory_mib`."""
    memory_mib: int
    boards: tuple[Board, ...]
    """One for each GPU."""
    labels: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()


def host_share(
    nodes: Iterable[HostNode],
    device: DeviceRequest,
    *,
    needs: tuple[str, ...] = (),
    tolerates: tuple[str, ...] = (),
) -> HostShare:
    """The least that any node with such a device would give, so that it has room wherever the job
    may run; `HostShare()` if there is no such node."""
    shares = [
        (node.cpu_milli * share, node.memory_mib * share)
        for node in nodes
        if allows(node.labels, node.taints, needs=needs, tolerates=tolerates)
        if (share := _node_share(node, device))
    ]
    if not shares:
        return HostShare()
    return HostShare(
        cpu_milli=max(MIN_CPU_MILLI, _rounded(min(cpu for cpu, _ in shares), CORE_MILLI)),
        memory_mib=max(MIN_MEMORY_MIB, _rounded(min(mib for _, mib in shares), GIB_MIB)),
    )


def _node_share(node: HostNode, device: DeviceRequest) -> Fraction:
    """The part of the node that the smallest device of the request is; 0 if it has none, or has not
    reported its CPU and memory."""
    if not (node.boards and node.cpu_milli and node.memory_mib):
        return Fraction(0)
    found = {board.key: board for board in node.boards}
    shares = [
        _gpu_share(found[option.board], option) / len(node.boards)
        for option in device_options(device, found.values())
        if sum(board.key == option.board for board in node.boards) >= option.count
    ]
    return min(shares, default=Fraction(0))


def _gpu_share(board: Board, option: DeviceOption) -> Fraction:
    """GPUs, or the part of one."""
    match option.kind:
        case SliceKind.GPU:
            return Fraction(option.count)
        case SliceKind.MIG:
            return Fraction(option.size, board.memory_slices)
        case SliceKind.MPS:
            return Fraction(option.memory_mib, board.memory_mib)


def _rounded(amount: Fraction, whole: int) -> int:
    """Down to whole cores or GiB, where there is at least one."""
    return int(amount) // whole * whole if amount >= whole else int(amount)
