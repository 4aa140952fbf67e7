"""Builds the observed document from the hardware, the runtime's containers and the journal."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from agents.contract.discovered_boards import observed_profile
from agents.contract.documents import (
    DesiredReplica,
    DesiredReplicaState,
    GpuMode,
    NodeFacts,
    ObservedDocument,
    ObservedGpu,
    ObservedReplica,
    ObservedSlice,
    ReplicaState,
    SliceProblem,
)
from agents.contract.image_needs import ImageNeeds
from agents.contract.pulls import ObservedPull
from agents.contract.wire_messages import to_wire
from agents.facts.device_keys import DeviceKey, whole_gpu_key
from agents.facts.failures import ReplicaFailure
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.hardware import Hardware
from agents.host.machine_ids import boot_id
from agents.runtime.base import ContainerPhase, ContainerStatus, is_of_other_image

STATES = {
    ContainerPhase.CREATED: ReplicaState.READY,
    ContainerPhase.RUNNING: ReplicaState.RUNNING,
    ContainerPhase.EXITED: ReplicaState.EXITED,
}
# The limit of `NodeFacts.problems` and `blocks`.
MAX_PROBLEMS = 64
SILENCE = "Nothing is started or removed here for now."


def observed_document(
    node: str,
    hardware: Hardware,
    desired: tuple[DesiredReplica, ...],
    containers: Mapping[str, ContainerStatus],
    failures: Mapping[str, ReplicaFailure],
    unreadable: tuple[str, ...] = (),
    pulls: Mapping[str, ObservedPull] = MappingProxyType({}),
    needs: Mapping[str, ImageNeeds] = MappingProxyType({}),
    commits: Mapping[str, str] = MappingProxyType({}),
) -> ObservedDocument:
    """The document of one round. Replicas that are not desired are in it while they exist.

    `unreadable`: as in the desired document, reported as problems of the node.
    `pulls`, `needs`: by replica, of its image. `commits`: of its code."""
    ids = {replica.id for replica in desired}
    others = [
        _undesired(s, failures.get(s.replica)) for s in containers.values() if s.replica not in ids
    ]
    busy = hardware.health_effects.foreign_processes.unavailable
    own = [_replica(r, containers.get(r.id), failures.get(r.id), pulls.get(r.id)) for r in desired]
    return ObservedDocument(
        node=node,
        boot_id=boot_id(),
        facts=_examined(hardware, unreadable),
        gpus=tuple(_in_service(_gpu(gpu, busy), hardware.out_of_service) for gpu in hardware.gpus),
        slices=tuple(_slice(i, busy) for i in hardware.instances if i.uuid),
        replicas=tuple(
            _completed(r, needs, commits) for r in sorted(own + others, key=lambda r: r.id)
        ),
        problems=tuple(
            SliceProblem(p.gpu_uuid, p.slice, p.code, p.sentence[:512]) for p in hardware.problems
        ),
        topology=hardware.topology,
    )


def _completed(
    seen: ObservedReplica, needs: Mapping[str, ImageNeeds], commits: Mapping[str, str]
) -> ObservedReplica:
    """With what is known of its image and its code."""
    if seen.id not in needs and seen.id not in commits:
        return seen
    return replace(seen, image_needs=needs.get(seen.id), code_commit=commits.get(seen.id, ""))


def _examined(hardware: Hardware, unreadable: tuple[str, ...]) -> NodeFacts:
    preflight = hardware.preflight
    older = tuple(f"This agent is older than the portal: {why}" for why in unreadable)
    problems = (
        *(hardware.node_problems + older + preflight.problems),
        *hardware.health_effects.sentences,
        *(problem[:512] for problem in hardware.volumes.problems() + hardware.caches.problems()),
    )
    return replace(
        hardware.facts, problems=problems[:MAX_PROBLEMS], blocks=preflight.blocks[:MAX_PROBLEMS]
    )


def silent_document(document: ObservedDocument, reason: str) -> ObservedDocument:
    """The last document while the engine or the driver does not answer: unchanged, except that the
    node takes no new work."""
    sentence = f"{SILENCE} {reason}"[:512]
    others = [problem for problem in document.facts.problems if not problem.startswith(SILENCE)]
    problems = (sentence, *others)[:MAX_PROBLEMS]
    facts = replace(document.facts, problems=problems, blocks=(sentence,))
    return replace(document, facts=facts)


def _replica(
    desired: DesiredReplica,
    status: ContainerStatus | None,
    failure: ReplicaFailure | None,
    pull: ObservedPull | None,
) -> ObservedReplica:
    if failure is not None:
        return ObservedReplica(
            id=desired.id,
            job=desired.job,
            attempt=desired.attempt,
            rank=desired.rank,
            fence=desired.fence,
            state=ReplicaState.FAILED,
            code=failure.code,
            sentence=failure.sentence,
            message=to_wire(failure.message),
        )
    if status is not None and not _starts_by_itself(desired, status):
        seen = _from_status(status)
        return replace(seen, pull=pull) if is_of_other_image(desired, status) else seen
    return ObservedReplica(
        id=desired.id,
        job=desired.job,
        attempt=desired.attempt,
        rank=desired.rank,
        fence=desired.fence,
        state=ReplicaState.PREPARING,
        pull=pull if status is None else None,
    )


def _undesired(status: ContainerStatus, failure: ReplicaFailure | None) -> ObservedReplica:
    """It ends as it was last reported: as failed, whatever became of its container."""
    seen = _from_status(status)
    if failure is None or status.phase is ContainerPhase.RUNNING:
        return seen
    return replace(
        seen,
        state=ReplicaState.FAILED,
        exit_code=None,
        memory_kill=False,
        code=failure.code,
        sentence=failure.sentence,
        message=to_wire(failure.message),
    )


def _starts_by_itself(desired: DesiredReplica, status: ContainerStatus) -> bool:
    """A gang of one starts at once, so that its short time in state ready is not reported."""
    return (
        status.phase is ContainerPhase.CREATED
        and desired.world == 1
        and desired.wish is DesiredReplicaState.RUN
    )


def _from_status(status: ContainerStatus) -> ObservedReplica:
    return ObservedReplica(
        id=status.replica,
        job=status.job,
        attempt=status.attempt,
        rank=status.rank,
        fence=status.fence,
        state=STATES[status.phase],
        container=status.container,
        address=status.address,
        port=status.port,
        exit_code=status.exit_code,
        memory_kill=status.memory_kill,
        code="memory_kill" if status.memory_kill else "",
        image_digest=status.image_digest,
        sentence=_ending(status),
    )


def _ending(status: ContainerStatus) -> str:
    if status.memory_kill:
        return f"rank {status.rank} was killed: its memory was not enough (exit {status.exit_code})"
    if status.exit_code:
        return status.sentence or f"rank {status.rank} ended with exit code {status.exit_code}"
    return ""


def _slice(instance: InstanceFacts, busy: Mapping[DeviceKey, str]) -> ObservedSlice:
    return ObservedSlice(*instance.key, instance.uuid, busy.get(instance.key, "")[:128])


def _gpu(gpu: GpuFacts, busy: Mapping[DeviceKey, str]) -> ObservedGpu:
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
        profiles=tuple(map(observed_profile, gpu.discovered)),
        busy=busy.get(whole_gpu_key(gpu.uuid), "")[:128],
    )


def _in_service(gpu: ObservedGpu, out_of_service: Mapping[str, str]) -> ObservedGpu:
    """A GPU that cannot be partitioned as desired is reported as unhealthy, with the reason."""
    why = out_of_service.get(gpu.uuid, "")
    return replace(gpu, healthy=False, health_reason=why[:512]) if why and gpu.healthy else gpu
