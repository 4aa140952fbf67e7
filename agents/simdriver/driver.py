"""The MIG rules and errors of real hardware, on plain values.

Sources of the rules: nvml.h notes, and the public transcripts that `agents/contract/boards.json`
names. No ctypes here.
"""

from agents.contract.boards import Profile
from agents.contract.geometry import Placement, free_placements
from agents.simdriver.codes import Code, DriverError
from agents.simdriver.state import (
    COMPUTE_WIDTHS,
    ComputeInstance,
    GpuInstance,
    SimulatedGpu,
    SimulatedNode,
    SimulatedProcess,
)

# Start order of the driver when no placement is named, by compute slices; (1, 2) is the 1g profile
# with double memory. Reproduces eight public transcripts.
DEFAULT_STARTS: dict[tuple[int, int], tuple[int, ...]] = {
    (1, 1): (6, 4, 5, 0, 1, 2, 3),
    (1, 2): (4, 6, 0, 2),
    (2, 2): (4, 0, 2),
    (3, 4): (4, 0),
}
MIG_OFF, MIG_ON = 0, 1
DOUBLE_MEMORY_COMPUTE_ID = 7
# Compute-instance profile id -> how many fit, by compute slices of the GPU instance; and where they
# begin, by their own width. Source: boards.json, `compute_instance_profiles`.
COMPUTE_COUNTS: dict[int, dict[int, int]] = {
    1: {0: 1},
    2: {0: 2, 1: 1},
    3: {0: 3, 1: 1, 2: 1},
    4: {0: 4, 1: 2, 3: 1},
    7: {0: 7, 1: 3, 2: 2, 3: 1, 4: 1},
}
COMPUTE_STARTS = {1: (0, 1, 2, 3, 4, 5, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)}


def require_root(node: SimulatedNode) -> None:
    if not node.is_root:
        raise DriverError(Code.NO_PERMISSION)


def require_mig(gpu: SimulatedGpu) -> None:
    if not gpu.kind.supports_mig or gpu.mig_current != MIG_ON:
        raise DriverError(Code.NOT_SUPPORTED)


def require_profile(gpu: SimulatedGpu, profile_id: int) -> Profile:
    profile = gpu.kind.profile_by_id(profile_id)
    if profile is None:
        raise DriverError(Code.INVALID_ARGUMENT)
    return profile


def require_queries(gpu: SimulatedGpu) -> None:
    """Profiles and placements can be read; on Ampere only in MIG mode (field 199 is 0)."""
    if not gpu.kind.supports_mig or not (queries_without_mode(gpu) or gpu.mig_current == MIG_ON):
        raise DriverError(Code.NOT_SUPPORTED)


def queries_without_mode(gpu: SimulatedGpu) -> bool:
    """NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE; inferred, not read on hardware."""
    return gpu.kind.supports_mig and not gpu.kind.mode_change_needs_reset


def set_mig_mode(node: SimulatedNode, gpu: SimulatedGpu, mode: int) -> Code:
    """The activation status. A busy GPU keeps the mode pending and returns IN_USE; one that needs a
    reset and cannot be reset returns RESET_REQUIRED. On Ampere the call itself tries the reset."""
    require_root(node)
    if not gpu.kind.supports_mig:
        raise DriverError(Code.NOT_SUPPORTED)
    if mode not in (MIG_OFF, MIG_ON):
        raise DriverError(Code.INVALID_ARGUMENT)
    gpu.mig_pending = mode
    if gpu.mig_current == mode:
        return Code.SUCCESS
    if gpu.processes or gpu.is_open or gpu.instances:
        return Code.IN_USE
    if gpu.kind.mode_change_needs_reset and gpu.reset_refused:
        return Code.RESET_REQUIRED
    gpu.mig_current = mode
    return Code.SUCCESS


def mig_placements(gpu: SimulatedGpu) -> list[Placement]:
    found = []
    for instance in gpu.instances:
        profile = gpu.kind.profile_by_id(instance.profile_id)
        if profile is not None:
            found.append(Placement(instance.start, instance.size, profile.name))
    return found


def remaining_capacity(gpu: SimulatedGpu, profile_id: int) -> int:
    """How many more instances of the profile fit."""
    require_mig(gpu)
    profile = require_profile(gpu, profile_id)
    taken = mig_placements(gpu)
    count = 0
    while options := free_placements(gpu.kind, profile, taken):
        taken.append(options[-1])
        count += 1
    return count


def create_gpu_instance(
    node: SimulatedNode,
    gpu: SimulatedGpu,
    profile_id: int,
    start: int | None,
    size: int | None = None,
) -> GpuInstance:
    """`start` None: the driver chooses. Occupied and impossible starts return the same code."""
    require_mig(gpu)
    require_root(node)
    profile = require_profile(gpu, profile_id)
    if start is not None and (start not in profile.starts or size != profile.memory_slices):
        raise DriverError(Code.INVALID_ARGUMENT)
    if gpu.is_open:
        raise DriverError(Code.IN_USE)
    free = {p.start for p in free_placements(gpu.kind, profile, mig_placements(gpu))}
    if start is None:
        start = next((s for s in _default_starts(profile) if s in free), None)
    if start is None or start not in free:
        raise DriverError(Code.INSUFFICIENT_RESOURCES)
    made = GpuInstance(_instance_id(gpu, profile, start), profile.id, start, profile.memory_slices)
    gpu.instances.append(made)
    return made


def require_destroyable(node: SimulatedNode, gpu: SimulatedGpu, instance: GpuInstance) -> None:
    require_root(node)
    if instance.compute or _clients(gpu, instance.id):
        raise DriverError(Code.IN_USE)


def destroy_gpu_instance(node: SimulatedNode, gpu: SimulatedGpu, instance: GpuInstance) -> None:
    require_destroyable(node, gpu, instance)
    gpu.instances.remove(instance)


def compute_profiles(gpu: SimulatedGpu, instance: GpuInstance) -> dict[int, tuple[int, int]]:
    """Compute-instance profile id -> (compute slices, how many fit)."""
    profile = require_profile(gpu, instance.profile_id)
    if profile.compute_slices == 1 and profile.memory_slices > 1:
        return {DOUBLE_MEMORY_COMPUTE_ID: (1, 1)}
    counts = COMPUTE_COUNTS[profile.compute_slices]
    return {known: (COMPUTE_WIDTHS[known], most) for known, most in counts.items()}


def compute_width(gpu: SimulatedGpu, instance: GpuInstance, profile_id: int) -> int:
    """Compute slices of a compute-instance profile that the GPU instance has."""
    known = compute_profiles(gpu, instance)
    if profile_id not in known:
        raise DriverError(Code.NOT_SUPPORTED)
    return known[profile_id][0]


def compute_starts(gpu: SimulatedGpu, instance: GpuInstance, profile_id: int) -> list[int]:
    """Where the GPU instance lets compute instances of the profile begin, occupied or not."""
    width = compute_width(gpu, instance, profile_id)
    total = require_profile(gpu, instance.profile_id).compute_slices
    return [start for start in COMPUTE_STARTS[width] if start + width <= total]


def free_compute_starts(gpu: SimulatedGpu, instance: GpuInstance, profile_id: int) -> list[int]:
    width = compute_width(gpu, instance, profile_id)
    taken = {
        compute.start + slot
        for compute in instance.compute
        for slot in range(COMPUTE_WIDTHS[compute.profile_id])
    }
    starts = compute_starts(gpu, instance, profile_id)
    return [start for start in starts if taken.isdisjoint(range(start, start + width))]


def create_compute_instance(
    node: SimulatedNode,
    gpu: SimulatedGpu,
    instance: GpuInstance,
    profile_id: int,
    start: int | None = None,
) -> ComputeInstance:
    """`start` None: the lowest free one. Which one real drivers take is not verified."""
    require_root(node)
    free = free_compute_starts(gpu, instance, profile_id)
    if start is not None and start not in compute_starts(gpu, instance, profile_id):
        raise DriverError(Code.INVALID_ARGUMENT)
    if not free or (start is not None and start not in free):
        raise DriverError(Code.INSUFFICIENT_RESOURCES)
    taken = {c.id for c in instance.compute}
    free_id = next(i for i in range(len(taken) + 1) if i not in taken)
    place = free[0] if start is None else start
    name = node.mig_uuid(gpu, instance, free_id)
    made = ComputeInstance(free_id, profile_id, name, place)
    instance.compute.append(made)
    return made


def destroy_compute_instance(
    node: SimulatedNode, gpu: SimulatedGpu, instance: GpuInstance, compute: ComputeInstance
) -> None:
    require_root(node)
    if any(p.compute_instance == compute.id for p in _clients(gpu, instance.id)):
        raise DriverError(Code.IN_USE)
    instance.compute.remove(compute)


def _clients(gpu: SimulatedGpu, instance_id: int) -> list[SimulatedProcess]:
    return [p for p in gpu.processes if p.gpu_instance == instance_id]


def _default_starts(profile: Profile) -> tuple[int, ...]:
    order = DEFAULT_STARTS.get((profile.compute_slices, profile.memory_slices), profile.starts)
    return tuple(s for s in order if s in profile.starts)


def _instance_id(gpu: SimulatedGpu, profile: Profile, start: int) -> int:
    """Heap number of the block; on boards of four slices too, where it starts one level lower."""
    size = profile.memory_slices
    return gpu.kind.memory_slices // size - 1 + start // size
