"""What counting alone says of whole GPUs: cheap, and never too pessimistic.

A gang finds no place where not even the numbers of free GPUs by node would do. Where they would,
`place` still has to look: boards, links, CPU and memory are not asked here.
"""

from collections.abc import Iterable, Sequence

from agents.contract.documents import SliceKind
from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.decisions import ReplicaPlacement
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.placement.ledger import Ledger


class FreeGpuCounts:
    """The numbers of GPUs that nobody holds, by node, and what they become as work leaves."""

    def __init__(self, ledger: Ledger) -> None:
        free = ledger.cached("free by node", lambda: _free_by_node(ledger))
        self._free = {key: len(gpus) for key, gpus in free.items()}
        self._gone = {gpu for gpus in free.values() for gpu in gpus}

    def release(self, replicas: Iterable[ReplicaPlacement]) -> None:
        """Each GPU that they touch is counted as free from now on."""
        for replica in replicas:
            for device in replica.devices:
                if device.gpu not in self._gone and replica.node in self._free:
                    self._gone.add(device.gpu)
                    self._free[replica.node] += 1

    def may_fit(self, job: WaitingJob, ways: Sequence[DeviceOption]) -> bool:
        """False where no way of the gang has a place, wherever the free GPUs are."""
        return any(self._may(job.replicas, want) for want in ways)

    def has_enough(self, job: WaitingJob, ways: Sequence[DeviceOption]) -> bool:
        """As `may_fit`, if what is free could be brought together on as few nodes as possible."""
        free = sum(self._free.values())
        whole = SliceKind.GPU
        return any(w.kind is not whole or w.count * job.replicas <= free for w in ways)

    def _may(self, replicas: int, want: DeviceOption) -> bool:
        if want.kind is not SliceKind.GPU:
            return True
        return sum(free // want.count for free in self._free.values()) >= replicas


def _free_by_node(ledger: Ledger) -> dict[str, list[str]]:
    """The GPUs that nobody holds, by node."""
    return {
        key: [gpu.view.id for gpu in node.open_gpus if all(map(gpu.is_idle, gpu.slices))]
        for key, node in ledger.nodes.items()
    }
