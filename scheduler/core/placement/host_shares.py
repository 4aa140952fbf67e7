"""The default CPU and memory of a replica: its device's share of the node.

The GPUs of a node have equal shares. The share of a MIG slice is its part of the GPU's memory
slots: in every layout these add up to one GPU at most, but units do not (4g and 3g of an H200 are
60,000 together). So the defaults of the devices of a node always fit on it together.
"""

from collections.abc import Iterable, Sequence
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
    """The properties of a node that defaults depend on."""

    cpu_milli: int
    """For all jobs together, as `memory_mib`."""
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
    """The smallest share on any node with such a device, so that the job fits on each of them;
    `HostShare()` if there is no such node."""
    # Most nodes of a large cluster have the same boards: only the smallest of these is compared.
    least: dict[tuple[int, ...], tuple[Sequence[Board], int, int]] = {}
    for node in nodes:
        if not (node.cpu_milli and node.memory_mib):  # not reported yet
            continue
        if allows(node.labels, node.taints, needs=needs, tolerates=tolerates):
            key = tuple(map(id, node.boards))
            _, cpu, mib = least.get(key, (node.boards, node.cpu_milli, node.memory_mib))
            least[key] = (node.boards, min(cpu, node.cpu_milli), min(mib, node.memory_mib))
    shares = [
        (cpu * part, mib * part)
        for boards, cpu, mib in least.values()
        if (part := _part(boards, device))
    ]
    if not shares:
        return HostShare()
    return HostShare(
        cpu_milli=max(MIN_CPU_MILLI, _rounded(min(cpu for cpu, _ in shares), CORE_MILLI)),
        memory_mib=max(MIN_MEMORY_MIB, _rounded(min(mib for _, mib in shares), GIB_MIB)),
    )


def _part(boards: Sequence[Board], device: DeviceRequest) -> Fraction:
    """The smallest device that serves the request, as a part of a node with these boards; 0 if it
    has none."""
    found = {board.key: board for board in boards}
    parts = [
        _gpu_share(found[option.board], option) / len(boards)
        for option in device_options(device, found.values())
        if sum(board.key == option.board for board in boards) >= option.count
    ]
    return min(parts, default=Fraction(0))


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
