"""What the node sees, as the document that it reports. GPU facts are read when they may have
changed, not at every look: asking a driver is slow."""

import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agents.contract.documents import (
    DesiredReplica,
    GpuMode,
    NodeFacts,
    ObservedDocument,
    ObservedGpu,
    ObservedReplica,
    ObservedSlice,
    ReplicaState,
    ReplicaWish,
    SliceProblem,
)
from agents.doctor.machine import RealMachine
from agents.doctor.preflight import Preflight
from agents.identity import boot_id
from agents.journal import Failure
from agents.nvml import GpuFacts, InstanceFacts, Nvml
from agents.partition import Problem
from agents.reconcile import DeviceKey
from agents.runtime.base import Phase, Runtime, Seen

VERSION = "0.1.0"
STATES = {
    Phase.CREATED: ReplicaState.READY,
    Phase.RUNNING: ReplicaState.RUNNING,
    Phase.EXITED: ReplicaState.EXITED,
}
# Disk is told in steps, so that a document does not change with every byte that is written.
DISK_STEP_MIB = 10 * 1024


class Hardware:
    """GPUs and instances as last read. `refresh` after anything that may have changed them."""

    def __init__(
        self,
        nvml: Nvml,
        runtime: Runtime,
        var: Path,
        *,
        simulated: bool,
        preflight: Preflight | None = None,
        accepted: frozenset[str] = frozenset(),
    ) -> None:
        """A node with a real driver is examined; a simulated one only by a `preflight` given.
        `accepted`: checks whose block does not count here."""
        self.nvml = nvml
        self.preflight = preflight or Preflight(
            None if simulated else lambda: RealMachine(var, runtime.kind, nvml, simulated=False),
            accepted=accepted,
        )
        self.preflight.examine()
        self._lock = threading.Lock()
        self.facts = _facts(nvml, runtime, var, simulated=simulated)
        self.gpus: list[GpuFacts] = []
        self.instances: list[InstanceFacts] = []
        self.problems: list[Problem] = []
        self.refresh()

    def refresh(self) -> None:
        self.preflight.examine_when_due()
        gpus = self.nvml.devices()
        instances = [i for gpu in gpus if gpu.mig_current for i in self.nvml.instances(gpu.uuid)]
        with self._lock:
            self.gpus, self.instances = gpus, instances

    def devices(self) -> dict[DeviceKey, str]:
        """Every device that can be given now, with the driver's UUID for it."""
        with self._lock:
            gpus, instances = self.gpus, self.instances
        whole = {(g.uuid, "", 0, 0): g.uuid for g in gpus if not g.mig_current and g.healthy}
        slices = {(i.gpu_uuid, i.profile, i.start, i.size): i.uuid for i in instances if i.uuid}
        return whole | slices


def observed(
    node: str,
    hardware: Hardware,
    wanted: tuple[DesiredReplica, ...],
    seen: Mapping[str, Seen],
    failures: Mapping[str, Failure],
) -> ObservedDocument:
    """The whole document. Replicas that are wanted come first; others only while they are there."""
    ids = {replica.id for replica in wanted}
    others = [_seen(s) for s in seen.values() if s.replica not in ids]
    replicas = [_replica(r, seen.get(r.id), failures.get(r.id)) for r in wanted] + others
    return ObservedDocument(
        node=node,
        boot_id=boot_id(),
        facts=_examined(hardware),
        gpus=tuple(_gpu(gpu) for gpu in hardware.gpus),
        slices=tuple(
            ObservedSlice(i.gpu_uuid, i.profile, i.start, i.size, i.uuid)
            for i in hardware.instances
            if i.uuid
        ),
        replicas=tuple(sorted(replicas, key=lambda r: r.id)),
        problems=tuple(
            SliceProblem(p.gpu_uuid, p.slice, p.code, p.sentence[:512]) for p in hardware.problems
        ),
    )


def _examined(hardware: Hardware) -> NodeFacts:
    preflight = hardware.preflight
    return replace(hardware.facts, problems=preflight.problems, blocks=preflight.blocks)


def _replica(wanted: DesiredReplica, seen: Seen | None, failure: Failure | None) -> ObservedReplica:
    if failure is not None:
        return ObservedReplica(
            id=wanted.id,
            job=wanted.job,
            attempt=wanted.attempt,
            rank=wanted.rank,
            fence=wanted.fence,
            state=ReplicaState.FAILED,
            code=failure.code,
            sentence=failure.sentence,
        )
    if seen is not None and not _starts_by_itself(wanted, seen):
        return _seen(seen)
    return ObservedReplica(
        id=wanted.id,
        job=wanted.job,
        attempt=wanted.attempt,
        rank=wanted.rank,
        fence=wanted.fence,
        state=ReplicaState.PREPARING,
    )


def _starts_by_itself(wanted: DesiredReplica, seen: Seen) -> bool:
    """A gang of one goes on at once: that it was ready for a moment is no news to anybody."""
    return seen.phase is Phase.CREATED and wanted.world == 1 and wanted.wish is ReplicaWish.RUN


def _seen(seen: Seen) -> ObservedReplica:
    return ObservedReplica(
        id=seen.replica,
        job=seen.job,
        attempt=seen.attempt,
        rank=seen.rank,
        fence=seen.fence,
        state=STATES[seen.phase],
        container=seen.container,
        address=seen.address,
        port=seen.port,
        exit_code=seen.exit_code,
        memory_kill=seen.memory_kill,
        code="memory_kill" if seen.memory_kill else "",
        sentence=_ending(seen),
    )


def _ending(seen: Seen) -> str:
    if seen.memory_kill:
        return f"rank {seen.rank} was killed: its memory was not enough (exit {seen.exit_code})"
    if seen.exit_code:
        return seen.sentence or f"rank {seen.rank} ended with exit code {seen.exit_code}"
    return ""


def _gpu(gpu: GpuFacts) -> ObservedGpu:
    return ObservedGpu(
        uuid=gpu.uuid,
        index=gpu.index,
        product_name=gpu.product_name,
        board=gpu.board.key,
        memory_mib=gpu.memory_mib,
        mode=GpuMode.MIG if gpu.mig_current else GpuMode.WHOLE,
        mode_pending=GpuMode.MIG if gpu.mig_pending else GpuMode.WHOLE,
        healthy=gpu.healthy,
        health_reason=gpu.health_reason,
        pci_bus_id=gpu.pci_bus_id,
        numa_node=gpu.numa_node,
    )


def _facts(nvml: Nvml, runtime: Runtime, var: Path, *, simulated: bool) -> NodeFacts:
    versions = nvml.versions()
    page = os.sysconf("SC_PAGE_SIZE")
    free = shutil.disk_usage(var).free >> 20
    return NodeFacts(
        cpu_milli=len(os.sched_getaffinity(0)) * 1_000,
        memory_mib=os.sysconf("SC_PHYS_PAGES") * page >> 20,
        disk_free_mib=free // DISK_STEP_MIB * DISK_STEP_MIB,
        runtime=runtime.kind,
        runtime_version=runtime.version(),
        fabric=runtime.fabric(),
        driver_version=versions.driver,
        nvml_version=versions.nvml,
        cuda_version=versions.cuda,
        simulated=simulated,
        agent_version=VERSION,
    )
