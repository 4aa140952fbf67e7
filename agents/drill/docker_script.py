"""What happens on a node with a real engine in one drill. Every call of the runtime is in it.

A lane and a gang's bridge are made and taken away; an image cannot be had; containers are made,
made again for a gang that meets elsewhere, started, copied, stopped, removed; all is tidied up.
"""

from dataclasses import replace

from agents.contract.documents import (
    DesiredDocument,
    DesiredGpu,
    DesiredReplica,
    DesiredReplicaState,
    DesiredSlice,
    Device,
    GpuMode,
    Rendezvous,
    SliceKind,
)
from agents.drill.script import DrillStep

# Says once that it runs, and once that it was asked to end.
PROGRAM = "trap 'echo end; exit 0' TERM; echo start; sleep 1000 & wait"
START_LINE, COMPLETE_LOG = b"start\n", b"start\nend\n"
# Nobody listens on this port of the loopback: no image is ever pulled from it.
ABSENT_IMAGE = "127.0.0.1:9/nobody/nothing:1"
ELSEWHERE = Rendezvous(address="gpu07.example", port=4_242, peers=("gpu07.example", "gpu08"))


def docker_script(node: str, gpu: str, image: str) -> list[DrillStep]:
    """Six acts on one H200. The job `long` runs from the second to the fifth, untouched.

    `node` is a name of its own on the engine, of at most 8 characters: jobs are called by it.
    """
    low = DesiredSlice("s-low", gpu, "3g.71gb", 0, 4)
    high = DesiredSlice("s-high", gpu, "2g.35gb", 4, 2)
    other = DesiredSlice("s-other", gpu, "1g.18gb", 5, 1)
    long = _replica(node, "long", image, _device(low))
    rank = replace(_replica(node, "gang", image, _device(high)), world=2, rank=1)
    lost = _replica(node, "lost", ABSENT_IMAGE)
    acts: list[DrillStep] = []

    def act(
        name: str,
        slices: tuple[DesiredSlice, ...],
        *replicas: DesiredReplica,
        leaves: bool = False,
    ) -> None:
        document = DesiredDocument(
            node=node,
            revision=len(acts) + 1,
            gpus=(DesiredGpu(gpu, GpuMode.MIG),),
            slices=slices,
            replicas=replicas,
        )
        wishes = {r.id: r.wish for r in replicas if r.image != ABSENT_IMAGE}
        runs = frozenset(key for key, wish in wishes.items() if wish is DesiredReplicaState.RUN)
        failing = {r.id: "image_pull" for r in replicas if r.id not in wishes}
        acts.append(DrillStep(name, document, runs, failing, leaves))

    prepare, stop = DesiredReplicaState.PREPARE, DesiredReplicaState.STOP
    act("carve and prepare", (low,), replace(long, wish=prepare))
    act("run, and prepare beside it", (low, high), long, replace(rank, wish=prepare), lost)
    act("a gang meets elsewhere", (low, high), long, replace(rank, rendezvous=ELSEWHERE))
    act("stop beside it", (low, high), long, replace(rank, wish=stop))
    act("carve anew beside it", (low, other), long)
    act("give all back and leave", (), leaves=True)
    return acts


def _device(piece: DesiredSlice) -> Device:
    return Device(
        allocation=f"a-{piece.id}",
        slice=piece.id,
        kind=SliceKind.MIG,
        gpu_uuid=piece.gpu_uuid,
        profile=piece.profile,
        start=piece.start,
        size=piece.size,
    )


def _replica(node: str, name: str, image: str, *devices: Device) -> DesiredReplica:
    return DesiredReplica(
        id=f"r-{name}",
        job=f"{node}-{name}",
        wish=DesiredReplicaState.RUN,
        image=image,
        command=("sh", "-c", PROGRAM),
        memory_mib=64,
        cpu_milli=500,
        shm_mib=16,
        devices=devices,
        grace_seconds=20,
    )
