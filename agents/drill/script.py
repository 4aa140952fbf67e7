"""What happens on the node in one drill: slices made beside running ones, moved, given back.

Each act is a whole desired document, as the portal would send it, and what has to be true after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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

# Says once that it runs, in a file that outlives it, and goes on until it is told to end.
PROGRAM = 'echo start >> "$DRILL_STARTS/$TESSERA_JOB"; exec sleep 1000'


@dataclass(frozen=True, slots=True)
class DrillStep:
    """`running`: the replicas that run at its end; all others have ended or never began. `failing`:
    those that cannot be prepared, and the code of why. `leaves`: the agent tidies up and goes."""

    name: str
    desired: DesiredDocument
    running: frozenset[str]
    failing: Mapping[str, str] = field(default_factory=dict)
    cleans_up: bool = False


def drill_script(node: str, gpu: str, starts: str) -> list[DrillStep]:
    """Seven acts on one H200: the job `long` runs from the second to the sixth, untouched."""
    low = DesiredSlice("s-low", gpu, "3g.71gb", 0, 4)
    high = DesiredSlice("s-high", gpu, "2g.35gb", 4, 2)
    other = DesiredSlice("s-other", gpu, "1g.18gb", 5, 1)
    long, short = _replica("long", low, starts), _replica("short", high, starts)
    whole = _whole("whole", gpu, starts)
    acts: list[DrillStep] = []

    def act(
        name: str, slices: tuple[DesiredSlice, ...], *replicas: DesiredReplica, mode: GpuMode
    ) -> None:
        document = DesiredDocument(
            node=node,
            revision=len(acts) + 1,
            gpus=(DesiredGpu(gpu, mode),),
            slices=slices,
            replicas=replicas,
        )
        runs = frozenset(r.id for r in replicas if r.wish is DesiredReplicaState.RUN)
        acts.append(DrillStep(name, document, runs))

    mig, off = GpuMode.MIG, GpuMode.WHOLE
    act("carve and prepare", (low,), replace(long, wish=DesiredReplicaState.PREPARE), mode=mig)
    act("run", (low,), long, mode=mig)
    act("carve and run beside it", (low, high), long, short, mode=mig)
    act(
        "stop beside it", (low, high), long, replace(short, wish=DesiredReplicaState.STOP), mode=mig
    )
    act("carve anew beside it", (low, other), long, mode=mig)
    act("give all back", (), mode=mig)
    act("give the GPU as a whole", (), whole, mode=off)
    act("leave nothing", (), mode=off)
    return acts


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
    return _job(name, device, starts)


def _whole(name: str, gpu: str, starts: str) -> DesiredReplica:
    return _job(name, Device(f"a-{name}", f"s-{name}", SliceKind.GPU, gpu), starts)


def _job(name: str, device: Device, starts: str) -> DesiredReplica:
    return DesiredReplica(
        id=f"r-{name}",
        job=f"j-{name}",
        wish=DesiredReplicaState.RUN,
        image="none",
        command=("sh", "-c", PROGRAM),
        env={"DRILL_STARTS": starts},
        devices=(device,),
        grace_seconds=5,
    )
