"""Queues for the tests of forecast starts: nodes of whole GPUs, limits that are always used up."""

from agents.contract.boards import known_boards
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.forecast.queue_values import QueueState, RunningEntry, WaitingEntry
from scheduler.core.forecast.starts import MIN_ENDED_RUNS
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.policy import BackfillMode
from scheduler.core.model.snapshot import (
    GpuView,
    NodeView,
    RunningJob,
)

ALWAYS_TO_THE_LIMIT = ((100.0, 1.0),) * 20
ANY_PART_OF_THE_LIMIT = tuple((100.0, (i + 5) / 55) for i in range(51))


def a_holding(gpus, limit, *, node=0, age=0.0, curve=-1):
    return RunningEntry(((node, gpus * UNITS_PER_GPU),), age, limit, curve)


def a_queued(
    id, gpus, limit, *, key=None, at=0.0, replicas=1, band=0, curve=-1, pool=0, begin_at=0.0
):
    """`key`: first come, where it is not given."""
    return WaitingEntry(
        id=id,
        queued_at=at,
        replicas=replicas,
        units=gpus * UNITS_PER_GPU,
        limit=limit,
        key=at if key is None else key,
        band=band,
        curve=curve,
        pool=pool,
        begin_at=begin_at,
    )


def a_queue(nodes, running=(), waiting=(), **fields):
    """`nodes`: GPUs of each. Free is what no running job holds."""
    free = [gpus * UNITS_PER_GPU for gpus in nodes]
    for holding in running:
        for node, units in holding.places:
            free[node] -= units
    given = {
        "now": 0.0,
        "ratios": ALWAYS_TO_THE_LIMIT,
        "ended_runs": MIN_ENDED_RUNS,
        "backfill": BackfillMode.EASY,
    } | fields
    return QueueState(
        total=tuple(gpus * UNITS_PER_GPU for gpus in nodes),
        free=tuple(free),
        running=tuple(running),
        waiting=tuple(waiting),
        **given,
    )


BOARD = known_boards()["H200-141GB"]


def a_node(name, gpus=8, cpu_milli=64_000, **fields):
    own = tuple(
        GpuView(
            f"{name}/{i}",
            i,
            BOARD.key,
            BOARD.product_names[0],
            BOARD.memory_mib,
            GpuMode.WHOLE,
            True,
        )
        for i in range(gpus)
    )
    room = (cpu_milli, 512_000, cpu_milli, 512_000)
    return NodeView(name, name, True, "f", *room, own, **fields)


def running(job, node, gpus, since):
    devices = tuple(
        DevicePlacement(f"{node}/{i}", SliceKind.GPU, "", 0, 8, UNITS_PER_GPU, BOARD.memory_mib)
        for i in range(gpus)
    )
    return RunningJob(job, (ReplicaPlacement(0, node, devices),), since)
