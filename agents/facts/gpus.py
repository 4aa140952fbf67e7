"""GPUs, MIG instances and MIG profiles as the driver reports them. Memory in MiB."""

from dataclasses import dataclass

from agents.contract.boards import Board, Profile, board_named, unknown_board
from agents.facts.device_keys import DeviceKey


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """A GPU as the driver reports it."""

    index: int
    uuid: str
    product_name: str
    memory_mib: int
    pci_bus_id: str
    numa_node: int | None
    # None if the board has no MIG.
    mig_current: bool | None
    mig_pending: bool | None
    healthy: bool = True
    health_reason: str = ""
    # Of a board that the table lacks, the profiles that its driver reports.
    discovered: tuple[Profile, ...] = ()

    @property
    def board(self) -> Board:
        known = board_named(self.product_name, self.memory_mib)
        return known or unknown_board(self.product_name, self.memory_mib, self.discovered)


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """A GPU instance.

    Without a compute instance it occupies memory slices, but is no device that CUDA can use."""

    gpu_uuid: str
    instance_id: int
    profile_id: int
    profile: str
    start: int
    size: int
    # Of its MIG device; empty while it has no compute instance.
    uuid: str = ""

    @property
    def key(self) -> DeviceKey:
        return (self.gpu_uuid, self.profile, self.start, self.size)


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """One GPU-instance profile as the driver reports it."""

    id: int
    query_index: int
    name: str
    compute_slices: int
    memory_mib: int
    multiprocessors: int
    max_instances: int
    # (start, size) in memory slices.
    places: tuple[tuple[int, int], ...]
    # How many more can be created; None while MIG is off.
    remaining: int | None


@dataclass(frozen=True, slots=True)
class DriverVersions:
    """Of the driver, of NVML, and the newest CUDA that the driver supports."""

    driver: str
    nvml: str
    cuda: str
