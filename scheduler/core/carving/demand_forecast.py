"""What the next requests will probably be: of the mix seen lately, and of who waits already."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import comb

from agents.contract.boards import Board
from agents.contract.documents import GpuMode, SliceKind
from scheduler.core.devices.options import device_options
from scheduler.core.model.snapshot import ClusterSnapshot, DeviceRequest

# How many requests ahead is looked.
HORIZON = 10
_MODES = {
    SliceKind.GPU: GpuMode.WHOLE,
    SliceKind.MIG: GpuMode.MIG,
    SliceKind.MPS: GpuMode.MPS,
}


@dataclass(frozen=True)
class DemandForecast:
    """Counts of devices asked for on one board: by profile, and by the mode that they need;
    `slices` is the memory slices of all that is asked for in MIG."""

    profiles: Counter[str]
    modes: Counter[GpuMode]
    slices: int

    @cached_property
    def total(self) -> int:
        return self.modes.total()

    def share(self, profile: str) -> float:
        """The chance that the next device asked for is of this profile."""
        return self.profiles[profile] / self.total if self.total else 0.0

    def chance_of_more_than(self, have: int, profile: str) -> float:
        """The chance that more than `have` of the next HORIZON ask for this profile."""
        return chance_of_more_than(have, self.share(profile))

    def chance_of_more_in_mode(self, have: int, mode: GpuMode) -> float:
        """The chance that more than `have` of the next HORIZON need a GPU in this mode."""
        return chance_of_more_than(have, self.modes[mode] / self.total) if self.total else 0.0

    @property
    def mean_slices(self) -> float:
        """Memory slices of a MIG request."""
        return self.slices / max(1, self.modes[GpuMode.MIG])


def forecast_demand(board: Board, snapshot: ClusterSnapshot) -> DemandForecast:
    """Each demand counts as the cheapest device of this board that serves it; those that wait
    count as often as they have replicas."""
    asked: list[tuple[DeviceRequest, int]] = [(d.device, d.count) for d in snapshot.mix.demands]
    asked += [(job.device, job.replicas) for job in snapshot.jobs if not job.hold_reason]
    profiles: Counter[str] = Counter()
    modes: Counter[GpuMode] = Counter()
    slices = 0
    for device, count in asked:
        if ways := device_options(device, [board]):
            way = ways[0]
            modes[_MODES[way.kind]] += count * way.count
            if way.kind is SliceKind.MIG:
                profiles[way.profile] += count * way.count
                slices += way.size * count * way.count
    return DemandForecast(profiles, modes, slices)


def chance_of_more_than(have: int, share: float) -> float:
    """The chance of more than `have` successes among HORIZON, each with chance `share`."""
    if have < 0:
        return 1.0
    up_to = range(min(have, HORIZON) + 1)
    miss = sum(comb(HORIZON, k) * share**k * (1 - share) ** (HORIZON - k) for k in up_to)
    return max(0.0, 1.0 - miss)
