"""Who stops in this pass and is still there: nobody starts on its place before it has stopped."""

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
    """Of one pass. The ledger counts them as gone; the cluster does not."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._on_gpu: dict[str, dict[str, PreemptibleJob]] = defaultdict(dict)
        self._on_node: dict[str, dict[str, PreemptibleJob]] = defaultdict(dict)
        self._cpu_milli: dict[str, int] = defaultdict(int)
        self._memory_mib: dict[str, int] = defaultdict(int)
        self._disk_mib: dict[str, int] = defaultdict(int)

    def add(self, victims: Iterable[PreemptibleJob]) -> None:
        for victim in victims:
            job = victim.run.job
            for replica in victim.run.replicas:
                self._on_node[replica.node][job.id] = victim
                self._cpu_milli[replica.node] += job.cpu_milli
                self._memory_mib[replica.node] += job.memory_mib
                self._disk_mib[replica.node] += job.disk_mib
                for device in replica.devices:
                    self._on_gpu[device.gpu][job.id] = victim

    def find_placement(
        self, job: WaitingJob, want: DeviceOption, *, merging: bool
    ) -> GangPlacement | None:
        """As `place.find`, where nobody leaves if there is such a place."""
        ledger = self._ledger
        mark = ledger.mark()
        found = find_placement(job, want, ledger, merging=merging)
        if found is None or not self.blocking(found):
            return found
        ledger.rollback(mark)
        with self._there():
            other = find_placement(job, want, ledger, merging=merging)
        if other is None:
            return find_placement(job, want, ledger, merging=merging)
        reserve_placement(ledger, job, other)
        return other

    def blocking(self, found: GangPlacement) -> list[PreemptibleJob]:
        """Who has to be gone before a job can start at these places, which the ledger holds. Of a
        GPU that somebody leaves nothing is given yet."""
        there: dict[str, PreemptibleJob] = {}
        if not self._on_node:
            return []
        for replica in found.replicas:
            node = self._ledger.nodes[replica.node]
            cpu, memory = self._cpu_milli[replica.node], self._memory_mib[replica.node]
            disk = max(0, node.disk_free_mib) < self._disk_mib[replica.node]
            if node.cpu_free_milli < cpu or node.memory_free_mib < memory or disk:
                there |= self._on_node[replica.node]
            for device in replica.devices:
                there |= self._on_gpu.get(device.gpu, {})
        return [there[key] for key in sorted(there)]

    @contextmanager
    def _there(self) -> Iterator[None]:
        """The ledger as if nobody had left. What was done on it meanwhile is rolled back."""
        ledger = self._ledger
        mark = ledger.mark()
        for key in self._on_node:
            node = ledger.nodes[key]
            cpu = min(node.cpu_free_milli, self._cpu_milli[key])
            memory = min(node.memory_free_mib, self._memory_mib[key])
            ledger.reserve_host(
                node, cpu, memory, min(max(0, node.disk_free_mib), self._disk_mib[key])
            )
        for key, victims in self._on_gpu.items():
            size = ledger.gpus[key].board.memory_slices
            for victim in list(victims.values())[:1]:
                whole = DevicePlacement(key, SliceKind.GPU, "", 0, size, 0, 0)
                ledger.reserve_device(whole, victim.run.job)
        try:
            yield
        finally:
            ledger.rollback(mark)
