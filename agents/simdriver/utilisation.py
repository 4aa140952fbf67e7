"""How busy a simulated GPU is: what sensors and counters derive from. Pure but for `Meters`' clock.

Work is a function of the processes that run and of the time since each began: it rises for half a
minute, then swings a little around a level of the process's own. Equal state and time give equal
values in every process. Nothing is random.

Board numbers (power limit W, highest SM clock, memory clock MHz) are those of NVIDIA's public data
sheets for the SXM or server form; idle power and idle clock are the order that idle boards show.
"""

import hashlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.simdriver.layouts import LAYOUTS
from agents.simdriver.state import SimulatedGpu, SimulatedNode, SimulatedProcess

RISE_SECONDS, SWING_SECONDS, SWING = 30.0, 60.0, 0.05
IDLE_SHARE, BUSY_SHARE = 0.11, 0.94
ROOM_C, HOT_C = 31, 74
# Payload of one NVLink and direction when all of it is used, in KiB/s: NVLink 4 reads 26.562 GB/s.
LINK_KIB_PER_SECOND = 26_562_000_000 / 1024
LINK_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class BoardFigures:
    """What a board can: watts, and clocks in MHz."""

    watts: int
    sm_mhz: int
    memory_mhz: int
    idle_sm_mhz: int = 345


FIGURES = {
    "A30-24GB": BoardFigures(165, 1_440, 1_215, 210),
    "A100-40GB": BoardFigures(400, 1_410, 1_215, 210),
    "A100-80GB": BoardFigures(400, 1_410, 1_593, 210),
    "H100-80GB": BoardFigures(700, 1_980, 2_619),
    "H100-94GB": BoardFigures(400, 1_785, 2_619),
    "H100-96GB": BoardFigures(700, 1_980, 2_619),
    "H200-141GB": BoardFigures(700, 1_980, 3_201),
    "GH200-144GB": BoardFigures(900, 1_980, 3_201),
    "B200-180GB": BoardFigures(1_000, 1_965, 3_996),
    "GB200-186GB": BoardFigures(1_200, 2_062, 3_996),
    "RTX-PRO-6000-96GB": BoardFigures(600, 2_430, 12_481, 180),
    "L40S-48GB": BoardFigures(350, 2_520, 9_001, 210),
    "T4-16GB": BoardFigures(70, 1_590, 5_001, 300),
}
# For a board without figures.
DEFAULT_FIGURES = BoardFigures(300, 1_500, 1_500)


def board_figures(gpu: SimulatedGpu) -> BoardFigures:
    return FIGURES.get(gpu.board, DEFAULT_FIGURES)


def work_of(process: SimulatedProcess, now: float) -> float:
    """Between 0 and 1. A client that is not listed only keeps the device open. One whose beginning
    is not known (0) began long ago; at its very beginning it does nothing yet."""
    if not process.listed:
        return 0.0
    seconds = max(0.0, now - process.began_at)
    number = hashlib.sha256(str(process.pid).encode()).digest()[0]
    level = 0.6 + 0.3 * number / 255
    swing = SWING * math.sin(2 * math.pi * seconds / SWING_SECONDS)
    return min(1.0, seconds / RISE_SECONDS) * (level + swing)


def activity(gpu: SimulatedGpu, now: float, instance: int | None = None) -> float:
    """Of a GPU instance, or of the whole: there each instance counts by its compute slices."""
    if instance is not None:
        return _sum(gpu, now, instance)
    if not gpu.mig_current:
        return _sum(gpu, now, None)
    shares = (_sum(gpu, now, i.id) * _share(gpu, i.profile_id) for i in gpu.instances)
    return min(1.0, sum(shares))


def _sum(gpu: SimulatedGpu, now: float, instance: int | None) -> float:
    return min(1.0, sum(work_of(p, now) for p in gpu.processes if p.gpu_instance == instance))


def _share(gpu: SimulatedGpu, profile_id: int) -> float:
    profile = gpu.kind.profile_by_id(profile_id)
    return profile.compute_slices / gpu.kind.compute_slices if profile else 0.0


def milliwatts(gpu: SimulatedGpu, now: float) -> int:
    share = IDLE_SHARE + (BUSY_SHARE - IDLE_SHARE) * activity(gpu, now)
    return round(board_figures(gpu).watts * share * 1_000)


def celsius(gpu: SimulatedGpu, now: float) -> int:
    return ROOM_C + gpu.index % 4 + round((HOT_C - ROOM_C) * activity(gpu, now))


def sm_mhz(gpu: SimulatedGpu, now: float) -> int:
    """Idle, or near the highest: the busier, the more the power limit takes off."""
    busy, board = activity(gpu, now), board_figures(gpu)
    return round(board.sm_mhz * (1 - 0.1 * busy)) if busy else board.idle_sm_mhz


def live_links(node: SimulatedNode, gpu: SimulatedGpu) -> list[int]:
    """Numbers of the NVLinks that are wired and work."""
    layout = LAYOUTS[node.layout]
    has_peer = bool(layout.switches) or any(g.index == gpu.index ^ 1 for g in node.gpus)
    return [n for n in range(layout.links if has_peer else 0) if n not in gpu.nvlinks_down]


def link_rate(gpu: SimulatedGpu, now: float) -> float:
    """KiB/s over one link and direction. MIG instances have no peers, so nothing flows."""
    if gpu.mig_current:
        return 0.0
    return LINK_KIB_PER_SECOND * LINK_SHARE * activity(gpu, now)


@dataclass(slots=True)
class Counters:
    """Counters of one GPU: energy in mJ, and KiB by link, the same in both directions."""

    at: float
    energy_mj: float = 0.0
    link_kib: dict[int, float] = field(default_factory=dict)


class Meters:
    """Counters that only grow. They start at 0 when this process first reads them, as a driver's do
    when it is loaded, and grow at the mean of the rates of two readings."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._readings: dict[str, Counters] = {}
        self._rates: dict[str, tuple[float, float]] = {}

    def read(self, node: SimulatedNode, gpu: SimulatedGpu) -> Counters:
        with self._lock:
            now = self.clock()
            rates = float(milliwatts(gpu, now)), link_rate(gpu, now)
            reading = self._readings.setdefault(gpu.uuid, Counters(now))
            before = self._rates.get(gpu.uuid, rates)
            seconds = max(0.0, now - reading.at)
            reading.energy_mj += seconds * (before[0] + rates[0]) / 2
            for link in live_links(node, gpu):
                flown = seconds * (before[1] + rates[1]) / 2
                reading.link_kib[link] = reading.link_kib.get(link, 0.0) + flown
            reading.at = max(now, reading.at)
            self._rates[gpu.uuid] = rates
            return Counters(reading.at, reading.energy_mj, dict(reading.link_kib))
