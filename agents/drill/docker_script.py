"""The steps of a drill on a real engine. They use every call of the runtime.

They create and remove a lane and a gang's bridge, fail to pull an image, and create containers,
recreate them for a gang with another rendezvous, start, copy, stop and remove them, and clean up.
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
from agents.drill.script import EVENT_CODES, DrillStep, NodeEvent

# Prints one line when it starts and one when it is asked to end.
PROGRAM = "trap 'echo end; exit 0' TERM; echo start; sleep 1000 & wait"
START_LINE, COMPLETE_LOG = b"start\n", b"start\nend\n"
# Nothing listens on this port of the loopback, so no image is ever pulled from it.
ABSENT_IMAGE = "127.0.0.1:9/nobody/nothing:1"
ELSEWHERE = Rendezvous(address="gpu07.example", port=4_242, peers=("gpu07.example", "gpu08"))


def docker_script(node: str, gpu: str, image: str) -> list[DrillStep]:
    """Nine steps on one H200. The job `long` runs undisturbed from the second to the fifth.

    `node` is unique on the engine, at most 8 characters; job names begin with it.
    """
    low = DesiredSlice("s-low", gpu, "3g.71gb", 0, 4)
    high = DesiredSlice("s-high", gpu, "2g.35gb", 4, 2)
    other = DesiredSlice("s-other", gpu, "1g.18gb", 5, 1)
    long = _replica(node, "long", image, _device(low))
    # Names of containers have the first characters of the job: it needs another attempt or rank.
    again = replace(_replica(node, "again", image, _device(other)), attempt=2)
    rank = replace(_replica(node, "gang", image, _device(high)), world=2, rank=1)
    lost = _replica(node, "lost", ABSENT_IMAGE)
    steps: list[DrillStep] = []

    def step(
        name: str,
        slices: tuple[DesiredSlice, ...],
        *replicas: DesiredReplica,
        leaves: bool = False,
        event: NodeEvent | None = None,
    ) -> None:
        document = DesiredDocument(
            node=node,
            revision=len(steps) + 1,
            gpus=(DesiredGpu(gpu, GpuMode.MIG),),
            slices=slices,
            replicas=replicas,
        )
        wishes = {r.id: r.wish for r in replicas if r.image != ABSENT_IMAGE}
        runs = frozenset(key for key, wish in wishes.items() if wish is DesiredReplicaState.RUN)
        failing = {r.id: "image_pull" for r in replicas if r.id not in wishes}
        if event is not None:
            failing |= dict.fromkeys(runs, str(EVENT_CODES[event]))
            runs = frozenset()
        steps.append(DrillStep(name, document, runs, failing, leaves, event))

    prepare, stop = DesiredReplicaState.PREPARE, DesiredReplicaState.STOP
    step("carve and prepare", (low,), replace(long, wish=prepare))
    step("run, and prepare beside it", (low, high), long, replace(rank, wish=prepare), lost)
    step("a gang meets elsewhere", (low, high), long, replace(rank, rendezvous=ELSEWHERE))
    step("stop beside it", (low, high), long, replace(rank, wish=stop))
    step("carve anew beside it", (low, other), long)
    step("the lease ends", (low, other), long, event=NodeEvent.LEASE_END)
    step("run after it", (low, other), again)
    step("the host is shut down and boots", (low, other), again, event=NodeEvent.HOST_SHUTDOWN)
    step("give all back and leave", (), leaves=True)
    return steps


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
