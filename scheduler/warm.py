"""Compiles, or loads, what a planning pass needs before the first job asks for it."""

from threading import Thread
from typing import Any

from agents.contract.boards import boards
from agents.contract.documents import GpuMode
from scheduler.core.decisions import Plan
from scheduler.core.plan import plan
from scheduler.core.policy import Policy
from scheduler.core.values import (
    ClusterSnapshot,
    DeviceRequest,
    GpuView,
    NodeView,
    Priority,
    WaitingJob,
)


def warm() -> Plan:
    """One pass over a cluster of the mind: one GPU, for which two jobs wait."""
    board = boards()["H200-141GB"]
    name = board.product_names[0]
    gpu = GpuView("g", 0, board.key, name, board.memory_mib, GpuMode.WHOLE, healthy=True)
    room = (8_000, 65_536, 8_000, 65_536)
    node = NodeView("n", "n", True, "", *room, (gpu,))
    asked = (DeviceRequest(mig="1g.18gb"), DeviceRequest(gpus=1))
    jobs = tuple(
        WaitingJob(str(number), "warm", "p", "u", Priority.NORMAL, 0, 1, device, 1_000, 1_024)
        for number, device in enumerate(asked, 1)
    )
    return plan(ClusterSnapshot(now=0, nodes=(node,), jobs=jobs), Policy())


def in_background(**_: Any) -> None:
    """Beside a worker's first tasks: most of them need no planner."""
    Thread(target=warm, name="warm", daemon=True).start()
