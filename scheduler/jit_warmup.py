"""Compiles, or loads, the kernels of planning and forecasting before the first job needs them.

`python -m scheduler.jit_warmup` does it in the build of the image; with `--from-cache` it fails if
one of them had to be compiled.
"""

import gc
import sys
from collections.abc import Mapping
from typing import Any

from agents.contract.boards import known_boards
from agents.contract.documents import GpuMode
from scheduler.core.compiled import uncached_functions
from scheduler.core.forecast.pass_estimates import estimate_starts
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.forecast.starts import MIN_ENDED_RUNS
from scheduler.core.model.decisions import Estimate, Plan
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import (
    ClusterSnapshot,
    Demand,
    DemandMix,
    DeviceRequest,
    GpuView,
    NodeView,
    PastRun,
    Priority,
    WaitingJob,
)
from scheduler.core.packing.engine import PackingEngine
from scheduler.core.packing.kinds import NodeRoom, RequestKind
from scheduler.core.packing.tables import ClusterExtent, hole_values_of_mix
from scheduler.core.packing.thousandths import ThousandthsGeometry
from scheduler.core.plan import plan

NOW = 1_000_000


def warm_up() -> tuple[Plan, Mapping[str, Estimate]]:
    """Run one planning pass and one forecast on a synthetic four-GPU cluster, so that every
    compiled kernel is loaded."""
    _run_tournament()
    snapshot, policy = _synthetic_snapshot(), Policy(warm=True)
    model = RuntimeModel.from_snapshot(snapshot)
    decided = plan(snapshot, policy, model)
    return decided, estimate_starts(snapshot, policy, model, decided)


def before_fork(**_: Any) -> None:
    """Warm up a worker's first process, so that those it forks have the kernels loaded.

    What exists now stays, so it is frozen: the collector neither scans nor copies it again.
    """
    warm_up()
    gc.collect()
    gc.freeze()


def _run_tournament() -> None:
    """Place once as on a cluster of thousands of nodes, which alone needs those kernels."""
    kind = RequestKind(1_000, 1_024, 1, 1.0, 1_000)
    extent = ClusterExtent(
        cpu_milli=8_000, memory_mib=65_536, max_gpus_per_node=1, gpus_by_model=(2,)
    )
    nodes = [NodeRoom(0, 8_000, 65_536, (1_000,))] * 2
    mix = {kind: 1.0}
    geometry = ThousandthsGeometry(tuple(hole_values_of_mix(mix)))
    engine = PackingEngine(nodes, extent, geometry, mix, use_tournament=True)
    number = engine.kind_number(kind)
    if choice := engine.best_choice(number):
        engine.place(number, choice)


def _synthetic_snapshot() -> ClusterSnapshot:
    """One node of four GPUs, three waiting jobs (a slice, two GPUs, four GPUs), and ended runs."""
    board = known_boards()["H200-141GB"]
    name, room = board.product_names[0], (8_000, 65_536, 8_000, 65_536)
    gpus = tuple(
        GpuView(str(index), index, board.key, name, board.memory_mib, GpuMode.WHOLE, healthy=True)
        for index in range(4)
    )
    devices = (DeviceRequest(mig="1g.18gb"), DeviceRequest(gpus=2), DeviceRequest(gpus=4))
    jobs = tuple(
        WaitingJob(str(number), "warm", "p", "u", Priority.NORMAL, 0, 1, device, 1_000, 1_024)
        for number, device in enumerate(devices, 1)
    )
    past = tuple(
        PastRun("p", "u", "warm", 1, 3_600, True, 60 + number, True, number)
        for number in range(MIN_ENDED_RUNS)
    )
    mix = DemandMix(tuple(Demand(device, 1_000, 1_024, 1) for device in devices))
    nodes = (NodeView("n", "n", True, "", *room, gpus),)
    return ClusterSnapshot(now=NOW, nodes=nodes, jobs=jobs, mix=mix, history=past)


def main(arguments: list[str]) -> None:
    warm_up()
    if arguments == ["--from-cache"] and uncached_functions():
        sys.exit(f"not in the cache: {', '.join(uncached_functions())}")


if __name__ == "__main__":
    main(sys.argv[1:])
