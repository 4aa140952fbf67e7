"""What the health of the GPUs means for work: replicas that fail, devices that are unavailable."""

from collections.abc import Container, Iterable, Mapping
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
from agents.nvml.gate import CALLS
from agents.nvml.known_gpus import KnownGpus
from agents.nvml.processes import GpuProcess, gpu_processes
from agents.runtime.base import ContainerPhase, ContainerStatus
from agents.state.journal import Journal


class HealthEffects:
    """Applies the health of the GPUs to the replicas on them."""

    def __init__(
        self,
        watch: HealthWatch,
        known_gpus: KnownGpus | None = None,
        files: HostFiles | None = None,
    ) -> None:
        """`known_gpus`: the GPUs of the driver's session."""
        self.watch = watch
        self.known_gpus = known_gpus or KnownGpus()
        self.files = files or FileTree(Path("/"))
        # Of the last refresh, and so are the clients of each GPU.
        self.node_health = NodeHealth()
        # Of the last round.
        self.foreign_processes = ForeignProcesses()
        # None on a node without containers.
        self.probe: DetachedProbe | None = None
        self._clients: dict[str, list[GpuProcess]] = {}

    @property
    def sentences(self) -> tuple[str, ...]:
        """Warnings about healthy GPUs."""
        cut_off = self.probe.sentences if self.probe else ()
        return self.node_health.warnings + cut_off + self.foreign_processes.sentences

    def refresh(self, gpus: list[GpuFacts], changing: Container[str] = ()) -> NodeHealth:
        """Assess the GPUs that respond and those that did before, and read their processes.

        `changing`: UUIDs of GPUs that must not be read now."""
        if self.probe:
            self.probe.run_when_due()
        self.node_health = self.watch.assess(gpus, self.known_gpus, changing)
        self._clients = {
            gpu.uuid: self._clients.get(gpu.uuid, [])
            if gpu.uuid in changing
            else self._read_clients(gpu.uuid)
            for gpu in gpus
        }
        return self.node_health

    def replace_facts(self, gpu: GpuFacts) -> NodeHealth:
        """New facts of one GPU after a change of it; its health is not assessed."""
        self.node_health = self.watch.replace_facts(gpu)
        return self.node_health

    def apply(
        self,
        replicas: tuple[DesiredReplica, ...],
        containers: Mapping[str, ContainerStatus],
        instances: Iterable[InstanceFacts],
        journal: Journal,
    ) -> None:
        """Record the failures of replicas and find the foreign processes."""
        existing, recorded = list(instances), journal.failures()
        events = self.watch.pending_events()
        found = self._faulted(replicas, containers)
        for event in events:
            found |= failures_of_event(event, replicas, containers, self.node_health.gpus, existing)
        for replica in found.keys() - recorded.keys():
            journal.record_failure(replica, found[replica])
        self.watch.clear_pending(events)
        self._find_foreign_processes(replicas, containers, existing)

    def _faulted(
        self, replicas: tuple[DesiredReplica, ...], seen: Mapping[str, ContainerStatus]
    ) -> dict[str, ReplicaFailure]:
        """A GPU whose driver does not respond for a moment fails no replica."""
        responding = [
            gpu for gpu in self.node_health.gpus if gpu.uuid not in self.node_health.unresponsive
        ]
        return failures_of_faulted_gpus(replicas, seen, responding, self.node_health.lost)

    def _find_foreign_processes(
        self,
        replicas: tuple[DesiredReplica, ...],
        seen: Mapping[str, ContainerStatus],
        instances: list[InstanceFacts],
    ) -> None:
        """Foreign processes are read twice, because a job's process may have ended since the last
        refresh."""
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
            with CALLS.entered_if_open() as is_open:
                if is_open:
                    busy = [gpu for gpu, clients in self._clients.items() if clients]
                    self._clients |= {gpu: self._read_clients(gpu) for gpu in busy}
            found = find(self._clients)
        self.foreign_processes = found

    def _read_clients(self, gpu_uuid: str) -> list[GpuProcess]:
        """Empty if the GPU was lost meanwhile."""
        try:
            return gpu_processes(gpu_uuid, self.known_gpus)
        except NvmlFailure:
            self.known_gpus.forget(gpu_uuid)
            return []
