"""What the node loop costs its driver, and how long a stop waits for it, as JSON.

`driver_calls`: calls at the seam between pynvml and the library, for one refresh of 8 simulated
H200 with 7 slices each: the first of an agent, the following ones (a GPU in turn is listed again),
and that of the one GPU that was just carved. `stop_wait_ms`: from the desired document that ends a
running replica to the call that stops its container, while the node is busy with something else.
`pulls`: see `loop_pulls.py`.

    make bench-loop
"""

import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.admission.policy import NodePolicy
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
from agents.hardware import Hardware
from agents.loop.node import NodeLoop
from agents.nvml.session import Nvml
from agents.runtime.base import BeforeKill
from agents.simdriver.install import install, uninstall
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.state.journal import Journal
from tests.benchmarks.loop_pulls import longest_and_median, pull_waits
from tests.support.driver_calls import counted_calls
from tests.support.memory_runtime import MemoryRuntime

BOARD, GPUS, SLICES = "H200-141GB", 8, 7
PROFILE, PROFILE_ID = "1g.18gb", 19
STEADY_REFRESHES = 2 * GPUS
STOPS = 5
# Of one instance; on hardware a deletion takes about a second (k8s-dra-driver, nvlib.go).
DESTROY_SECONDS = 1.0
WAIT_SECONDS = 120.0


class TimedRuntime(MemoryRuntime):
    """Containers as values, with the moment at which each is stopped."""

    def __init__(self) -> None:
        super().__init__(dict)
        self.stopped_at: dict[str, float] = {}
        self.changed = threading.Condition()

    def start(
        self, replica: DesiredReplica, devices: Sequence[str], rendezvous: Rendezvous
    ) -> None:
        with self.changed:
            super().start(replica, devices, rendezvous)
            self.changed.notify_all()

    def stop(self, replica_id: str, grace_seconds: int, before_kill: BeforeKill = None) -> None:
        with self.changed:
            self.stopped_at.setdefault(replica_id, time.monotonic())
            super().stop(replica_id, grace_seconds)
            self.changed.notify_all()

    def wait(self, reached: Callable[[], bool], what: str) -> None:
        with self.changed:
            if not self.changed.wait_for(reached, WAIT_SECONDS):
                raise RuntimeError(f"waited in vain for {what}")


class BenchNode:
    """A simulated node with every slice that it can have, and a loop of real threads on it."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "driver.json")
        self.store.create(new_node(board=BOARD, gpus=GPUS, seed=1, latency=False))
        install(self.store.path)
        self.nvml = Nvml()
        self.gpus = [gpu.uuid for gpu in self.nvml.devices()]
        for gpu in self.gpus:
            self.nvml.set_mig_mode(gpu, on=True)
            for start in range(SLICES):
                self.nvml.create_instance(gpu, PROFILE_ID, start, 1)
        self.runtime = TimedRuntime()
        self.journal = Journal(folder / "journal.sqlite3")
        self.folder = folder
        self.revision = 0

    def hardware(self) -> Hardware:
        return Hardware(Nvml(), self.runtime, self.folder, simulated=True)

    def desired(self, kept: range, *replicas: DesiredReplica) -> DesiredDocument:
        """`kept`: the starts of the first GPU that keep their slice; the others keep all."""
        self.revision += 1
        slices = tuple(
            DesiredSlice(f"s-{index}-{start}", gpu, PROFILE, start, 1)
            for index, gpu in enumerate(self.gpus)
            for start in (kept if index == 0 else range(SLICES))
        )
        modes = tuple(DesiredGpu(gpu, GpuMode.MIG) for gpu in self.gpus)
        return DesiredDocument(
            node="n-1", revision=self.revision, gpus=modes, slices=slices, replicas=replicas
        )

    def replica(self, name: str) -> DesiredReplica:
        """On the first slice of the second GPU."""
        device = Device(f"a-{name}", "s-1-0", SliceKind.MIG, self.gpus[1], PROFILE, 0, 1)
        return DesiredReplica(
            id=f"r-{name}",
            job=f"j-{name}",
            wish=DesiredReplicaState.RUN,
            image="none",
            command=("true",),
            devices=(device,),
            rendezvous=Rendezvous("127.0.0.1", 29_500),
        )


def driver_calls(node: BenchNode) -> dict[str, Any]:
    with counted_calls() as first:
        hardware = node.hardware()
    steady: list[Counter[str]] = []
    for _ in range(STEADY_REFRESHES):
        with counted_calls() as calls:
            hardware.refresh()
        steady.append(calls)
    gpu, last = node.gpus[0], SLICES - 1
    instance = next(i for i in hardware.instances_of(gpu) if i.start == last)
    hardware.nvml.destroy_instance(gpu, instance.instance_id, (last, 1))
    with counted_calls() as after:
        hardware.refresh_gpu(gpu)
    hardware.nvml.create_instance(gpu, PROFILE_ID, last, 1)
    totals = [calls.total() for calls in steady]
    return {
        "first": first.total(),
        "steady_min": min(totals),
        "steady_max": max(totals),
        "after_a_carve": after.total(),
        "calls_of_the_max": dict(max(steady, key=Counter.total).most_common()),
    }


def stop_beside_carving(node: BenchNode) -> float:
    """The first GPU is carved for seconds; a replica on the second is stopped meanwhile. Seconds
    until its container is stopped."""
    loop = NodeLoop(
        "n-1", node.journal, node.hardware(), node.runtime, NodePolicy(), lambda _: None
    )
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        loop.renew_lease(float("inf"))
        replica = node.replica(f"{node.revision}")
        loop.accept(node.desired(range(SLICES), replica))
        node.runtime.wait(
            lambda: any(step[:2] == ("start", replica.id) for step in node.runtime.story), "a start"
        )
        with node.store.change() as state:
            state.destroy_seconds = DESTROY_SECONDS
        begun = time.monotonic()
        loop.accept(node.desired(range(3), replace(replica, wish=DesiredReplicaState.STOP)))
        node.runtime.wait(lambda: replica.id in node.runtime.stopped_at, "a stop")
        waited = node.runtime.stopped_at[replica.id] - begun
    finally:
        with node.store.change() as state:
            state.destroy_seconds = 0.0
        loop.stop()
        thread.join()
    return waited


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tessera-loop-") as folder:
        node = BenchNode(Path(folder))
        try:
            calls = driver_calls(node)
            waits = [1_000 * stop_beside_carving(node) for _ in range(STOPS)]
            result = {
                "gpus": GPUS,
                "slices": GPUS * SLICES,
                "driver_calls": calls,
                "stop_wait_ms": {"carving": longest_and_median(waits)},
            }
        finally:
            node.journal.close()
            uninstall()
    result["pulls"] = pull_waits()
    sys.stdout.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
