"""What the health of the GPUs means for the work on them: who fails, and what is held back."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from agents.contract.documents import DesiredReplica
from agents.facts.failures import ReplicaFailure
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.health.affected_replicas import ended, stranded
from agents.health.foreign_processes import Strangers, granted_to, is_of_ours, strangers
from agents.health.lost_devices import DetachedProbe
from agents.health.watch import HealthWatch, Judged
from agents.host.files import FileTree, HostFiles
from agents.nvml.errors import NvmlFailure
from agents.nvml.processes import GpuProcess, gpu_processes
from agents.runtime.base import ContainerPhase, ContainerStatus
from agents.state.journal import Journal


class Attention:
    """`judged` and the clients of each GPU are of the last look; `strangers` of the last round.
    `files` is where processes are looked up; `probe` looks into containers, where there are any."""

    def __init__(self, watch: HealthWatch, files: HostFiles | None = None) -> None:
        self.watch = watch
        self.files = files or FileTree(Path("/"))
        self.judged = Judged()
        self.strangers = Strangers()
        self.probe: DetachedProbe | None = None
        self._clients: dict[str, list[GpuProcess]] = {}

    @property
    def sentences(self) -> tuple[str, ...]:
        """What people should hear of GPUs that are healthy."""
        cut_off = self.probe.sentences if self.probe else ()
        return self.judged.cautions + cut_off + self.strangers.sentences

    def look(self, gpus: list[GpuFacts]) -> Judged:
        """Judge the GPUs that answer, and all that did before; read who uses them."""
        if self.probe:
            self.probe.look_when_due()
        self.judged = self.watch.judged(gpus)
        self._clients = {gpu.uuid: _clients(gpu.uuid) for gpu in gpus}
        return self.judged

    def attend(
        self,
        replicas: tuple[DesiredReplica, ...],
        seen: Mapping[str, ContainerStatus],
        instances: Iterable[InstanceFacts],
        journal: Journal,
    ) -> None:
        """Write down who fails, and find what is to be held back."""
        known, told = list(instances), journal.failures()
        events = self.watch.untold()
        found = self._stranded(replicas, seen)
        for event in events:
            found |= ended(event, replicas, seen, self.judged.gpus, known)
        for replica in found.keys() - told.keys():
            journal.record_failure(replica, found[replica])
        self.watch.drawn(events)
        self._find_strangers(replicas, seen, known)

    def _stranded(
        self, replicas: tuple[DesiredReplica, ...], seen: Mapping[str, ContainerStatus]
    ) -> dict[str, ReplicaFailure]:
        """A driver that is silent for a moment fails nobody."""
        spoken = [gpu for gpu in self.judged.gpus if gpu.uuid not in self.judged.silent]
        return stranded(replicas, seen, spoken, self.judged.lost)

    def _find_strangers(
        self,
        replicas: tuple[DesiredReplica, ...],
        seen: Mapping[str, ContainerStatus],
        instances: list[InstanceFacts],
    ) -> None:
        """A process that ended since the last look is no stranger: who seems to be one is asked
        for again."""
        live = {key: one for key, one in seen.items() if one.phase is not ContainerPhase.EXITED}
        find = partial(
            strangers,
            gpus=self.judged.gpus,
            instances=instances,
            granted=granted_to(replicas, seen),
            is_ours=partial(is_of_ours, self.files, live),
            files=self.files,
        )
        found = find(self._clients)
        if found.sentences:
            self._clients |= {gpu: _clients(gpu) for gpu, on in self._clients.items() if on}
            found = find(self._clients)
        self.strangers = found


def _clients(gpu_uuid: str) -> list[GpuProcess]:
    """A GPU that was lost meanwhile has none."""
    try:
        return gpu_processes(gpu_uuid)
    except NvmlFailure:
        return []
