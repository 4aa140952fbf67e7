"""What the health of the GPUs means for the work on them: who fails, and what is held back."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from agents.contract.documents import DesiredReplica
from agents.facts.failures import ReplicaFailure
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.health.affected_replicas import failures_of_event, failures_of_faulted_gpus
from agents.health.foreign_processes import (
    ForeignProcesses,
    find_foreign_processes,
    granted_devices,
    is_own_process,
)
from agents.health.lost_devices import DetachedProbe
from agents.health.watch import HealthWatch, NodeHealth
from agents.host.files import FileTree, HostFiles
from agents.nvml.errors import NvmlFailure
from agents.nvml.processes import GpuProcess, gpu_processes
from agents.runtime.base import ContainerPhase, ContainerStatus
from agents.state.journal import Journal


class HealthEffects:
    """`judged` and the clients of each GPU are of the last look; `strangers` of the last round.
    `files` is where processes are looked up; `probe` looks into containers, where there are any."""

    def __init__(self, watch: HealthWatch, files: HostFiles | None = None) -> None:
        self.watch = watch
        self.files = files or FileTree(Path("/"))
        self.node_health = NodeHealth()
        self.foreign_processes = ForeignProcesses()
        self.probe: DetachedProbe | None = None
        self._clients: dict[str, list[GpuProcess]] = {}

    @property
    def sentences(self) -> tuple[str, ...]:
        """What people should hear of GPUs that are healthy."""
        cut_off = self.probe.sentences if self.probe else ()
        return self.node_health.warnings + cut_off + self.foreign_processes.sentences

    def refresh(self, gpus: list[GpuFacts]) -> NodeHealth:
        """Judge the GPUs that answer, and all that did before; read who uses them."""
        if self.probe:
            self.probe.run_when_due()
        self.node_health = self.watch.assess(gpus)
        self._clients = {gpu.uuid: _clients(gpu.uuid) for gpu in gpus}
        return self.node_health

    def apply(
        self,
        replicas: tuple[DesiredReplica, ...],
        containers: Mapping[str, ContainerStatus],
        instances: Iterable[InstanceFacts],
        journal: Journal,
    ) -> None:
        """Write down who fails, and find what is to be held back."""
        known, told = list(instances), journal.failures()
        events = self.watch.pending_events()
        found = self._stranded(replicas, containers)
        for event in events:
            found |= failures_of_event(event, replicas, containers, self.node_health.gpus, known)
        for replica in found.keys() - told.keys():
            journal.record_failure(replica, found[replica])
        self.watch.clear_pending(events)
        self._find_strangers(replicas, containers, known)

    def _stranded(
        self, replicas: tuple[DesiredReplica, ...], seen: Mapping[str, ContainerStatus]
    ) -> dict[str, ReplicaFailure]:
        """A driver that is silent for a moment fails nobody."""
        spoken = [
            gpu for gpu in self.node_health.gpus if gpu.uuid not in self.node_health.unresponsive
        ]
        return failures_of_faulted_gpus(replicas, seen, spoken, self.node_health.lost)

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
            find_foreign_processes,
            gpus=self.node_health.gpus,
            instances=instances,
            granted=granted_devices(replicas, seen),
            is_ours=partial(is_own_process, self.files, live),
            files=self.files,
        )
        found = find(self._clients)
        if found.sentences:
            self._clients |= {gpu: _clients(gpu) for gpu, on in self._clients.items() if on}
            found = find(self._clients)
        self.foreign_processes = found


def _clients(gpu_uuid: str) -> list[GpuProcess]:
    """A GPU that was lost meanwhile has none."""
    try:
        return gpu_processes(gpu_uuid)
    except NvmlFailure:
        return []
