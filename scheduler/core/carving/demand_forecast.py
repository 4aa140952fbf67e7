"""Which devices the next requests will probably need, from the recent mix and the queue."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import comb

from agents.contract.boards import Board
from agents.contract.documents import GpuMode, SliceKind
from scheduler.core.devices.options import device_options
from scheduler.core.model.snapshot import ClusterSnapshot, DeviceRequest

# Requests to look ahead.
HORIZON = 10
_MODES = {
    SliceKind.GPU: GpuMode.WHOLE,
    SliceKind.MIG: GpuMode.MIG,
    SliceKind.MPS: GpuMode.MPS,
}


@dataclass(frozen=True)
class DemandForecast:
    """Expected requests for devices of one board."""

    profiles: Counter[str]
    """Requested devices by MIG profile."""
    modes: Counter[GpuMode]
    """Requested devices by the GPU mode that they need."""
    slices: int
    """Memory slices of all requested MIG devices."""

    @cached_property
    def total(self) -> int:
        return self.modes.total()

    def share(self, profile: str) -> float:
        """The chance that the next requested device has this profile."""
        return self.profiles[profile] / self.total if self.total else 0.0

    def chance_of_more_than(self, have: int, profile: str) -> float:
        """The chance that more than `have` of the next HORIZON requests are for this profile."""
        return chance_of_more_than(have, self.share(profile))

    def chance_of_more_in_mode(self, have: int, mode: GpuMode) -> float:
        """The chance that more than `have` of the next HORIZON requests need a GPU in this mode."""
        return chance_of_more_than(have, self.modes[mode] / self.total) if self.total else 0.0

    @property
    def mean_slices(self) -> float:
        """Mean memory slices of a MIG request."""
        return self.slices / max(1, self.modes[GpuMode.MIG])


def forecast_demand(board: Board, snapshot: ClusterSnapshot) -> DemandForecast:
    """Each demand counts as the cheapest device of this board that serves it. A waiting job counts
    once per replica."""
    requested: list[tuple[DeviceRequest, int]] = [(d.device, d.count) for d in snapshot.mix.demands]
    requested += [(job.device, job.replicas) for job in snapshot.jobs if not job.awaits_people]
    profiles: Counter[str] = Counter()
    modes: Counter[GpuMode] = Counter()
    slices = 0
    for device, count in requested:
        if options := device_options(device, [board]):
            cheapest = options[0]
            modes[_MODES[cheapest.kind]] += count * cheapest.count
            if cheapest.kind is SliceKind.MIG:
                profiles[cheapest.profile] += count * cheapest.count
                slices += cheapest.size * count * cheapest.count
    return DemandForecast(profiles, modes, slices)


def chance_of_more_than(have: int, share: float) -> float:
    """The chance of more than `have` successes among HORIZON, each with chance `share`."""
    if have < 0:
        return 1.0
    up_to = range(min(have, HORIZON) + 1)
    miss = sum(comb(HORIZON, k) * share**k * (1 - share) ** (HORIZON - k) for k in up_to)
    return max(0.0, 1.0 - miss)
