"""X."""

from dataclasses import dataclass

from agents.contract.boards import Board, Profile, board_named, unknown_board
from agents.facts.device_keys import DeviceKey


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """A GPU as the driver tells it. MIG modes are None where the board has no MIG. `discovered`:
    the profiles of a board that the table lacks (`agents.nvml.profiles.Discovery`)."""

    index: int
    uuid: str
    product_name: str
    memory_mib: int
    pci_bus_id: str
    numa_node: int | None
    mig_current: bool | None
    mig_pending: bool | None
    healthy: bool = True
    health_reason: str = ""
    discovered: tuple[Profile, ...] = ()

    @property
    def board(self) -> Board:
        known = board_named(self.product_name, self.memory_mib)
        return known or unknown_board(self.product_name, self.memory_mib, self.discovered)


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """A GPU instance. Without a compute instance (`uuid` empty) it holds slices, but no CUDA
    program can see it."""

    gpu_uuid: str
    instance_id: int
    profile_id: int
    profile: str
    start: int
    size: int
    uuid: str = ""

    @property
    def key(self) -> DeviceKey:
        return (self.gpu_uuid, self.profile, self.start, self.size)


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """One GPU-instance profile as the driver tells it. `places` are (start, size) in memory slices;
    `remaining` is how many can still be made, None while MIG is off."""

    id: int
    query_index: int
    name: str
    compute_slices: int
    memory_mib: int
    multiprocessors: int
    max_instances: int
    places: tuple[tuple[int, int], ...]
    remaining: int | None


@dataclass(frozen=True, slots=True)
class DriverVersions:
    driver: str
    nvml: str
    cuda: str
