"""Jobs that stop in this pass but still run: nothing starts in their place, or with their quota,
before they ended."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from agents.contract.documents import SliceKind
from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.search import GangPlacement, find_placement
from scheduler.core.queue.reservation import reserve_placement
from scheduler.core.queue.running import PreemptibleJob
from scheduler.core.quota.budgets import remaining_seconds


class StoppingJobs:
    """The stopping jobs of one pass. The ledger has released them already; the cluster has not."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._on_gpu: dict[str, dict[str, PreemptibleJob]] = defaultdict(dict)
        self._on_node: dict[str, dict[str, PreemptibleJob]] = defaultdict(dict)
        self._cpu_milli: dict[str, int] = defaultdict(int)
        self._memory_mib: dict[str, int] = defaultdict(int)
        self._disk_mib: dict[str, int] = defaultdict(int)
        self._jobs: list[PreemptibleJob] = []

    def add(self, stopping: Iterable[PreemptibleJob]) -> None:
        for each in stopping:
            job = each.run.job
            self._jobs.append(each)
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
        if placement is None or not self._blocking_devices(placement):
            return placement
        ledger.rollback(mark)
        with self._still_allocated():
            other = find_placement(job, option, ledger, merging=merging)
        if other is None:
            return find_placement(job, option, ledger, merging=merging)
        reserve_placement(ledger, job, other)
        return other

    def blocking(self, job: WaitingJob, placement: GangPlacement) -> list[PreemptibleJob]:
        """The stopping jobs that have to end before `job` can start at `placement`, which the
        ledger holds."""
        return self._blocking_devices(placement) or self._blocking_quota(job, placement)

    def _blocking_devices(self, placement: GangPlacement) -> list[PreemptibleJob]:
        """A GPU counts as occupied until the last of its stopping jobs has ended."""
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

    def _blocking_quota(self, job: WaitingJob, placement: GangPlacement) -> list[PreemptibleJob]:
        """All of its project, or all, if the job would exceed a limit while they still count."""
        if not self._jobs:
            return []
        undos = [self._charge(each.run.job, each.run.replicas, 1) for each in self._jobs]
        own = placement.replicas
        undos.append(self._charge(job, own, -1, remaining_seconds(job)))
        units, model = self._size(own)
        is_short = self._ledger.accounts.limit_reason(job, units, model) is not None
        for undo in undos[::-1]:
            undo()
        if not is_short:
            return []
        return [e for e in self._jobs if e.run.job.project == job.project] or self._jobs

    def _charge(
        self, job: WaitingJob, replicas: Sequence[ReplicaPlacement], sign: int, seconds: int = 0
    ) -> Callable[[], None]:
        units, model = self._size(replicas)
        return self._ledger.accounts.charge(job.project, job.user, sign * units, model, seconds)

    def _size(self, replicas: Sequence[ReplicaPlacement]) -> tuple[int, str]:
        """Units, and the key of the board."""
        devices = [device for replica in replicas for device in replica.devices]
        gpus = (self._ledger.gpus.get(device.gpu) for device in devices)
        model = next((gpu.board.key for gpu in gpus if gpu), "")
        return sum(device.units for device in devices), model

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
