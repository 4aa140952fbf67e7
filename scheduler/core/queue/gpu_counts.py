"""A cheap upper bound from counting whole GPUs: whether a gang could fit at all.

If the free GPUs per node are too few, no placement exists. If they suffice, `find_placement` still
has to search: boards, links, CPU and memory are not checked here.
"""

from collections.abc import Iterable, Sequence

from agents.contract.documents import SliceKind
from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.decisions import ReplicaPlacement
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.placement.ledger import Ledger


class FreeGpuCounts:
    """Free GPUs by node, updated as running jobs are released."""

    def __init__(self, ledger: Ledger) -> None:
        free = ledger.cached("free by node", lambda: _free_by_node(ledger))
        self._free = {key: len(gpus) for key, gpus in free.items()}
        self._free_gpus = {gpu for gpus in free.values() for gpu in gpus}

    def release(self, replicas: Iterable[ReplicaPlacement]) -> None:
        """Count every GPU that these replicas touch as free."""
        for replica in replicas:
            for device in replica.devices:
                if device.gpu not in self._free_gpus and replica.node in self._free:
                    self._free_gpus.add(device.gpu)
                    self._free[replica.node] += 1

    def may_fit(self, job: WaitingJob, options: Sequence[DeviceOption]) -> bool:
        """False if no option of the gang can fit, wherever on their nodes the free GPUs are."""
        return any(self._may(job.replicas, option) for option in options)

    def has_enough(self, job: WaitingJob, options: Sequence[DeviceOption]) -> bool:
        """As `may_fit`, if all free GPUs could be gathered on as few nodes as possible."""
        free = sum(self._free.values())
        whole = SliceKind.GPU
        return any(o.kind is not whole or o.count * job.replicas <= free for o in options)

    def _may(self, replicas: int, option: DeviceOption) -> bool:
        if option.kind is not SliceKind.GPU:
            return True
        return sum(free // option.count for free in self._free.values()) >= replicas


def _free_by_node(ledger: Ledger) -> dict[str, list[str]]:
    """Ids of the unallocated GPUs, by node."""
    return {
        key: [gpu.view.id for gpu in node.open_gpus if all(map(gpu.is_idle, gpu.slices))]
        for key, node in ledger.nodes.items()
    }
