"""The steps of a drill: slices are created beside running ones, moved and removed.

Each step is a complete desired document, as the portal would send it, and what must be true after.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from agents.contract.documents import (
    DesiredDocument,
    DesiredGpu,
    DesiredReplica,
    DesiredReplicaState,
    DesiredSlice,
    Device,
    GpuMode,
    SliceKind,
)
from agents.contract.end_causes import EndCause
from agents.drill.images import PULLED_IMAGES

# Writes one line to a file that outlives it, and runs until it is stopped.
PROGRAM = 'echo start >> "$DRILL_STARTS/$TESSERA_JOB"; exec sleep 1000'


class NodeEvent(StrEnum):
    """What ends replicas around their programs."""

    LEASE_END = "lease end"
    HOST_SHUTDOWN = "host shutdown"
    POWER_LOSS = "power loss"


EVENT_CODES = {
    NodeEvent.LEASE_END: EndCause.LEASE_OVER,
    NodeEvent.HOST_SHUTDOWN: EndCause.NODE_RESTARTED,
    NodeEvent.POWER_LOSS: EndCause.NODE_RESTARTED,
}


@dataclass(frozen=True, slots=True)
class DrillStep:
    """A desired document and its result."""

    name: str
    desired: DesiredDocument
    # Replicas that run at its end; all others have ended or never started.
    running: frozenset[str]
    # Replicas that cannot be prepared, with the code of the failure.
    failing: Mapping[str, str] = field(default_factory=dict)
    # The agent stops all jobs and cleans up.
    cleans_up: bool = False
    # What happens to the node before the document arrives.
    event: NodeEvent | None = None
    # Images that are being pulled at its end, each once; no other is.
    pulling: frozenset[str] = frozenset()
    # All that is being pulled is there, once the document has arrived.
    images_arrive: bool = False


def drill_script(node: str, gpu: str, starts: str) -> list[DrillStep]:
    """18 steps on one H200. The job `long` runs undisturbed from the second to the seventh."""
    low = DesiredSlice("s-low", gpu, "3g.71gb", 0, 4)
    high = DesiredSlice("s-high", gpu, "2g.35gb", 4, 2)
    other = DesiredSlice("s-other", gpu, "1g.18gb", 5, 1)
    long, short = _replica("long", low, starts), _replica("short", high, starts)
    whole = _whole("whole", gpu, starts)
    steps: list[DrillStep] = []

    def step(
        name: str, slices: tuple[DesiredSlice, ...], *replicas: DesiredReplica, mode: GpuMode
    ) -> None:
        document = DesiredDocument(
            node=node,
            revision=len(steps) + 1,
            gpus=(DesiredGpu(gpu, mode),),
            slices=slices,
            replicas=replicas,
        )
        runs = frozenset(r.id for r in replicas if r.wish is DesiredReplicaState.RUN)
        steps.append(DrillStep(name, document, runs))

    mig, off = GpuMode.MIG, GpuMode.WHOLE
    step("carve and prepare", (low,), replace(long, wish=DesiredReplicaState.PREPARE), mode=mig)
    step("run", (low,), long, mode=mig)
    step("carve and run beside it", (low, high), long, short, mode=mig)
    step(
        "stop beside it", (low, high), long, replace(short, wish=DesiredReplicaState.STOP), mode=mig
    )
    step("carve anew beside it", (low, other), long, mode=mig)
    steps += _full_pulls(len(steps), node, gpu, (low, other), long, starts)
    step("give all back", (), mode=mig)
    step("give the GPU as a whole", (), whole, mode=off)
    steps += _ends(len(steps), node, gpu, starts)
    step("leave nothing", (), mode=off)
    return steps


def _full_pulls(
    revision: int,
    node: str,
    gpu: str,
    slices: tuple[DesiredSlice, DesiredSlice],
    long: DesiredReplica,
    starts: str,
) -> list[DrillStep]:
    """More images are pulled than download at a time. Meanwhile a replica is stopped, a slice is
    carved, pulls are cancelled and the lease ends; then images arrive."""
    steps: list[DrillStep] = []
    beside = _replica("beside", slices[1], starts)
    crowd = [replace(_job(f"pull{n}", starts), image=i) for n, i in enumerate(PULLED_IMAGES[:6])]
    twin = replace(_job("twin", starts), image=crowd[1].image)
    rest = (*crowd[1:-1], twin)
    free = DesiredSlice("s-free", gpu, "1g.18gb", 6, 1)

    def step(
        name: str,
        *replicas: DesiredReplica,
        slices: tuple[DesiredSlice, ...] = (*slices, free),
        **more: Any,
    ) -> None:
        document = DesiredDocument(
            node=node,
            revision=revision + len(steps) + 1,
            gpus=(DesiredGpu(gpu, GpuMode.MIG),),
            slices=slices,
            replicas=replicas,
        )
        step = DrillStep(name, document, _running(replicas, more), **more)
        steps.append(step)

    pulling = frozenset(replica.image for replica in (*crowd, twin))
    step("pull beside it", long, beside, *crowd, twin, slices=slices, pulling=pulling)
    stopped = replace(beside, wish=DesiredReplicaState.STOP)
    pulling = frozenset(replica.image for replica in rest)
    step("stop, cancel and carve beside full pulls", long, stopped, *rest, pulling=pulling)
    ends = {long.id: str(EndCause.LEASE_OVER)}
    step(
        "the lease ends beside full pulls",
        long,
        *rest,
        pulling=pulling,
        failing=ends,
        event=NodeEvent.LEASE_END,
    )
    # Two at most: an end of more running work at once needs an admin's consent.
    step("the images arrive, and half are cancelled", crowd[1], twin, images_arrive=True)
    return steps


def _running(replicas: tuple[DesiredReplica, ...], step: Mapping[str, Any]) -> frozenset[str]:
    waiting, failing = step.get("pulling", ()), step.get("failing", ())
    return frozenset(
        r.id
        for r in replicas
        if r.wish is DesiredReplicaState.RUN and r.image not in waiting and r.id not in failing
    )


def _ends(revision: int, node: str, gpu: str, starts: str) -> list[DrillStep]:
    """What the lease and two boots end is reported as that, by whichever agent comes next."""
    steps: list[DrillStep] = []
    for event, code in EVENT_CODES.items():
        replica = _whole(event.split()[0], gpu, starts)
        for name, failing in ((f"run until {event}", {}), (str(event), {replica.id: str(code)})):
            document = DesiredDocument(
                node=node,
                revision=revision + len(steps) + 1,
                gpus=(DesiredGpu(gpu, GpuMode.WHOLE),),
                replicas=(replica,),
            )
            runs = frozenset({replica.id} - failing.keys())
            step = DrillStep(name, document, runs, failing, event=event if failing else None)
            steps.append(step)
    return steps


def _replica(name: str, piece: DesiredSlice, starts: str) -> DesiredReplica:
    device = Device(
        allocation=f"a-{name}",
        slice=piece.id,
        kind=SliceKind.MIG,
        gpu_uuid=piece.gpu_uuid,
        profile=piece.profile,
        start=piece.start,
        size=piece.size,
    )
    return _job(name, starts, device)


def _whole(name: str, gpu: str, starts: str) -> DesiredReplica:
    return _job(name, starts, Device(f"a-{name}", f"s-{name}", SliceKind.GPU, gpu))


def _job(name: str, starts: str, *devices: Device) -> DesiredReplica:
    return DesiredReplica(
        id=f"r-{name}",
        job=f"j-{name}",
        wish=DesiredReplicaState.RUN,
        image="none",
        command=("sh", "-c", PROGRAM),
        env={"DRILL_STARTS": starts},
        devices=devices,
        grace_seconds=5,
    )
