"""Jobs that stop in this pass but still run: nothing starts in their place before they ended."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from agents.contract.documents import SliceKind
from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.decisions import DevicePlacement
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.search import GangPlacement, find_placement
from scheduler.core.queue.reservation import reserve_placement
from scheduler.core.queue.running import PreemptibleJob


class StoppingJobs:
    """The stopping jobs of one pass. The ledger has released them already; the cluster has not."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._on_gpu: dict[str, dict[str, PreemptibleJob]] = defaultdict(dict)
        self._on_node: dict[str, dict[str, PreemptibleJob]] = defaultdict(dict)
        self._cpu_milli: dict[str, int] = defaultdict(int)
        self._memory_mib: dict[str, int] = defaultdict(int)
        self._disk_mib: dict[str, int] = defaultdict(int)

    def add(self, stopping: Iterable[PreemptibleJob]) -> None:
        for each in stopping:
            job = each.run.job
            for replica in each.run.replicas:
                self._on_node[replica.node][job.id] = each
                self._cpu_milli[replica.node] += job.cpu_milli
                self._memory_mib[replica.node] += job.memory_mib
                self._disk_mib[replica.node] += job.disk_mib
                for device in replica.devices:
                    self._on_gpu[device.gpu][job.id] = each

    def find_placement(
        self, job: WaitingJob, option: DeviceOption, *, merging: bool
    ) -> GangPlacement | None:
        """As `search.find_placement`, preferring a place that no stopping job occupies."""
        ledger = self._ledger
        mark = ledger.mark()
        placement = find_placement(job, option, ledger, merging=merging)
        if placement is None or not self.blocking(placement):
            return placement
        ledger.rollback(mark)
        with self._still_allocated():
            other = find_placement(job, option, ledger, merging=merging)
        if other is None:
            return find_placement(job, option, ledger, merging=merging)
        reserve_placement(ledger, job, other)
        return other

    def blocking(self, placement: GangPlacement) -> list[PreemptibleJob]:
        """The stopping jobs that have to end before a job can start at `placement`, which the
        ledger holds. A GPU counts as occupied until the last of its stopping jobs has ended."""
        blocking: dict[str, PreemptibleJob] = {}
        if not self._on_node:
            return []
        for replica in placement.replicas:
            node = self._ledger.nodes[replica.node]
            cpu, memory = self._cpu_milli[replica.node], self._memory_mib[replica.node]
            lacks_disk = max(0, node.disk_free_mib) < self._disk_mib[replica.node]
            if node.cpu_free_milli < cpu or node.memory_free_mib < memory or lacks_disk:
                blocking |= self._on_node[replica.node]
            for device in replica.devices:
                blocking |= self._on_gpu.get(device.gpu, {})
        return [blocking[key] for key in sorted(blocking)]

    @contextmanager
    def _still_allocated(self) -> Iterator[None]:
        """The ledger as if the stopping jobs still held their devices. Changes made inside the
        block are rolled back."""
        ledger = self._ledger
        mark = ledger.mark()
        for key in self._on_node:
            node = ledger.nodes[key]
            cpu = min(node.cpu_free_milli, self._cpu_milli[key])
            memory = min(node.memory_free_mib, self._memory_mib[key])
            disk = min(max(0, node.disk_free_mib), self._disk_mib[key])
            ledger.reserve_host(node, cpu, memory, disk)
        for key, stopping in self._on_gpu.items():
            size = ledger.gpus[key].board.memory_slices
            for each in list(stopping.values())[:1]:
                whole = DevicePlacement(key, SliceKind.GPU, "", 0, size, 0, 0)
                ledger.reserve_device(whole, each.run.job)
        try:
            yield
        finally:
            ledger.rollback(mark)
